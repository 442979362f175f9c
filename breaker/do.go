package breaker

import (
	"context"
	"time"
)

// reportTime bounds a report, which outlives the call's context.
const reportTime = 5 * time.Second

// Do makes one call under a breaker: it asks for admission, calls, and reports
// what call returns. Where the call is not admitted, it returns *OpenError; an
// error of the store before the call or after it is returned as it is. What the
// call brought is the business of call, which keeps it.
//
// Without a Latency in the report, Do takes the time. Where the call is a probe,
// its context ends some time before its lease, so that the report of its silence
// still counts. A call that panics or exits its goroutine is no evidence; its
// ticket is given back.
func Do(ctx context.Context, s Store, key Key, call func(context.Context) Report, opts ...AdmitOption) error {
	t, err := s.Admit(ctx, key, opts...)
	if err != nil {
		return err
	}
	returned := false
	defer func() {
		if !returned {
			after, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportTime)
			defer cancel()
			_ = s.Release(after, t) // the lease ends by itself
		}
	}()
	r := timed(ctx, t, call)
	returned = true
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportTime)
	defer cancel()
	return s.Report(after, t, r)
}

func timed(ctx context.Context, t Ticket, call func(context.Context) Report) Report {
	if t.Lease > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, t.Lease-min(reportTime, t.Lease/4))
		defer cancel()
	}
	start := time.Now()
	r := call(ctx)
	if r.Latency == 0 {
		r.Latency = time.Since(start)
	}
	return r
}
