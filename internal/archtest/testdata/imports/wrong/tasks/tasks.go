package tasks

import (
	"nightshift/dashboard"
	"nightshift/internal/app"
)
