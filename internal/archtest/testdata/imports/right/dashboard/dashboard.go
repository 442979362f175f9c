package dashboard

import (
	"github.com/hibiken/asynq"
	"github.com/hibiken/asynqmon"
)

var options = asynqmon.Options{RedisConnOpt: asynq.RedisClientOpt{}}
