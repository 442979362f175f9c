package main

import "nightshift/config"
