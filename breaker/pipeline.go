package breaker

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// This file puts operations into the pipeline of another, so that one round trip
// asks breakers and other stores at once. Each returns a function that gives the
// operation's answer, once, after the pipeline's Exec. Where that failed, or was
// never called, the answer is an error and not a decision.
//
// The scripts go by their digests alone. Redis answers NOSCRIPT where it does not
// have one; then the caller loads them (Load) and repeats what had that answer.

// AdmitIn is Admit in a pipeline.
func (r *Redis) AdmitIn(ctx context.Context, p redis.Pipeliner, key Key, opts ...AdmitOption) func() (Ticket, error) {
	if err := key.check(); err != nil {
		return func() (Ticket, error) { return Ticket{}, fmt.Errorf("admit call: %w", err) }
	}
	op := Op{Kind: OpAdmit, Model: key.Model, ID: newID(), NoProbe: noProbe(opts)}
	heard := r.in(ctx, p, key, &op)
	return func() (Ticket, error) {
		reply, err := heard()
		return admitted(key, &op, &reply, err)
	}
}

// ReportIn is Report in a pipeline.
func (r *Redis) ReportIn(ctx context.Context, p redis.Pipeliner, t Ticket, rep Report) func() error {
	return r.endIn(ctx, p, t, t.ended(OpReport, rep))
}

// ReleaseIn is Release in a pipeline.
func (r *Redis) ReleaseIn(ctx context.Context, p redis.Pipeliner, t Ticket) func() error {
	if !t.Probe {
		return func() error { return nil }
	}
	return r.endIn(ctx, p, t, t.ended(OpRelease, Report{}))
}

func (r *Redis) endIn(ctx context.Context, p redis.Pipeliner, t Ticket, op Op) func() error {
	heard := r.in(ctx, p, t.Key, &op)
	return func() error {
		if _, err := heard(); err != nil {
			return fmt.Errorf("end call to %s: %w", t.Key, err)
		}
		return nil
	}
}

func (r *Redis) in(ctx context.Context, p redis.Pipeliner, key Key, op *Op) func() (Reply, error) {
	c := r.command(key, op)
	reply := c.script.EvalSha(ctx, p, c.keys, c.args...)
	return func() (Reply, error) { return r.heard(key, reply) }
}

// Load has Redis keep the scripts of this file.
func (r *Redis) Load(ctx context.Context) error {
	for _, s := range []*redis.Script{r.admit, r.report} {
		if err := s.Load(ctx, r.rdb).Err(); err != nil {
			return fmt.Errorf("load scripts of breakers: %w", err)
		}
	}
	return nil
}
