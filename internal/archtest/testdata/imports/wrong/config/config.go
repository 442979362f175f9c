package config

import "nightshift/provider"
