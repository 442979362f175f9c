package tasks

import (
	"context"

	"github.com/hibiken/asynq"

	"nightshift/batch"
	"nightshift/breaker"
)
