package main

import (
	"nightshift/batch"
	"nightshift/config"
	"nightshift/internal/app"
	"nightshift/internal/cli"
	"nightshift/internal/sim"
)
