package ladder

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"nightshift/breaker"
	"nightshift/limit"
	"nightshift/provider"
)

// Sending is a probe of ours that is about to be sent. A call is counted, and
// never refused, but to a model that is parked; what is no call takes no slot.
type Sending struct {
	Key   breaker.Key
	Call  bool
	USD   provider.USD // the most that it costs
	Lease time.Duration
}

// send is Gate.Send over stores of any kind. Only a park keeps a probe: the
// breaker lets few out, and where all slots are taken, by calls of workers that
// died, nothing else could find out that the model is back.
func send(ctx context.Context, pace limit.Pacer, guard Guard, s Sending) (sent func(context.Context, Exit) error, err error) {
	m, ticket := modelOf(s.Key), rand.Text()
	if !s.Call {
		return func(ctx context.Context, x Exit) error { return parkAfter(ctx, pace, m, x) }, nil
	}
	slot, err := pace.Reserve(ctx, limit.Ask{Model: m, Ticket: ticket, Tokens: probeTokens, Patience: time.Millisecond, Lease: s.Lease, Alone: true})
	switch {
	case err != nil:
		return nil, err
	case slot.Verdict != limit.Go:
		if err := pace.Cancel(ctx, m, ticket); err != nil {
			return nil, err
		}
		if slot.Reason == limit.ReasonParked {
			return nil, &WaitError{Key: s.Key, Slot: slot}
		}
	}
	c := limit.Charge{Producer: limit.System, Ticket: ticket, USD: int64(s.USD), Always: true}
	if err := guard.Reserve(ctx, c); err != nil {
		return nil, errors.Join(err, pace.Cancel(ctx, m, ticket))
	}
	return func(ctx context.Context, x Exit) error {
		err := guard.Settle(ctx, c, int64(x.USD))
		if slot.Verdict != limit.Go {
			return errors.Join(err, parkAfter(ctx, pace, m, x))
		}
		_, settled := pace.Settle(ctx, m, ticket, x.Result)
		return errors.Join(err, settled)
	}, nil
}

// probeTokens is about what the short prompt and its answer take.
const probeTokens = 20

// parkAfter parks a model whose probe had no slot and was refused.
func parkAfter(ctx context.Context, pace limit.Pacer, m limit.Model, x Exit) error {
	if x.Result.Kind != limit.Limited {
		return nil
	}
	_, err := pace.Park(ctx, m, x.Result.Lane, x.Result.RetryAfter)
	return err
}
