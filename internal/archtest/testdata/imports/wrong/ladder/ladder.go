package ladder

import (
	"github.com/hibiken/asynq"

	"nightshift/batch"
	"nightshift/breaker"
	"nightshift/tasks"
)
