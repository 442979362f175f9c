package dashboard

import queue "github.com/hibiken/asynq"

var inspector = queue.NewInspector(nil)
