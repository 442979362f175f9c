package tasks_test

import (
	"nightshift/internal/redistest"
	"nightshift/internal/sim"
	"nightshift/tasks"
)
