package main

import "nightshift/batch"
