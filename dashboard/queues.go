package dashboard

import "github.com/hibiken/asynqmon"

// queuesRoot is the path of asynqmon.
const queuesRoot = "/queues"

// maxPageSize is the most tasks a page of asynqmon may hold; it has no bound of
// its own, and each task is a lookup.
const maxPageSize = 200

// newQueues makes the asynqmon handler of the options.
func newQueues(o Options) *asynqmon.HTTPHandler {
	f := &formatter{batches: o.Batches, decode: o.DecodeTask, show: o.ShowContent, now: o.Now, log: o.Logger}
	return asynqmon.New(asynqmon.Options{
		RootPath:         o.BasePath + queuesRoot,
		RedisConnOpt:     o.Redis,
		PayloadFormatter: f,
		ResultFormatter:  f,
		ReadOnly:         !o.QueuesWrite,
	})
}
