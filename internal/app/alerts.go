package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"nightshift/config"
	"nightshift/internal/alert"
	"nightshift/internal/notify"
	"nightshift/tasks"
)

// endsSeen is how far back the keeper looks for batches that ended: longer than a
// fleet is without a keeper, and short, since each look reads them all.
const endsSeen = time.Hour

// receivers are those of the configuration. Its errors show neither URLs nor secrets.
func receivers(cfg *config.Config, version string) ([]alert.Receiver, error) {
	var all []alert.Receiver
	var errs []error
	for i, c := range cfg.Notify {
		r, err := receiver(c, version)
		for j, other := range all {
			if err == nil && other.ID == r.ID {
				err = fmt.Errorf("it is notify[%d] once more; give one of them the events of both", j)
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("notify[%d]: %w", i, err))
		}
		all = append(all, r)
	}
	return all, errors.Join(errs...)
}

func receiver(c config.Receiver, version string) (alert.Receiver, error) {
	target, err := c.Target(os.LookupEnv)
	if err != nil {
		return alert.Receiver{}, err
	}
	secret, err := c.Secret(os.LookupEnv)
	if err != nil {
		return alert.Receiver{}, err
	}
	hook, err := notify.NewHook(target, notify.Format(c.Format), notify.Options{Secret: secret, Private: c.AllowPrivate, Version: version})
	if private, is := errors.AsType[*notify.PrivateError](err); is {
		return alert.Receiver{}, fmt.Errorf("%w; allow_private: true allows it", private)
	}
	if err != nil {
		return alert.Receiver{}, err
	}
	events := c.Events
	if len(events) == 0 {
		events = config.Events
	}
	sum := sha256.Sum256([]byte(c.Format + " " + target))
	r := alert.Receiver{ID: hex.EncodeToString(sum[:8]), Name: c.Format + " " + hostOf(target), Hook: hook}
	for _, e := range events {
		r.Events = append(r.Events, alert.Event(e))
	}
	return r, nil
}

// hostOf is what may be shown of a receiver's URL.
func hostOf(target string) string {
	u, err := url.Parse(target)
	if err != nil {
		return ""
	}
	return u.Host
}

// buildAlerts makes the part that tells receivers; nil where there are none, and in
// a rehearsal, which is no news.
func (a *App) buildAlerts(watch *watching) error {
	cfg := a.conn.Config
	if len(cfg.Notify) == 0 || a.opts.Rehearsal {
		return nil
	}
	all, err := receivers(cfg, a.opts.Version)
	if err != nil {
		return err
	}
	a.alerts = alert.New(alert.Options{
		Redis: a.conn.state, Receivers: all, Rules: alertRules(cfg.Alerts), Look: a.conn.sightings,
		Epoch: a.worker.Keeper().Epoch, Tried: func(r alert.Result) { watch.Notified(tasks.Notification(r)) }, Logger: a.opts.Logger,
	})
	return nil
}

// alertRules are when events are told of. A breaker that closes for less than a
// minute did not close.
func alertRules(c config.Alerts) map[alert.Event]alert.Rule {
	return map[alert.Event]alert.Rule{
		alert.BreakerOpenLong: {After: c.BreakerOpen, Quiet: time.Minute},
		alert.GuardTripped:    {Quiet: c.GuardQuiet},
		alert.DeadlineAtRisk:  {After: c.DeadlineFor, Quiet: c.DeadlineFor},
		alert.BatchDone:       {},
	}
}

// sightings is what holds now, by event; what cannot be read is in the error.
func (c *Conn) sightings(ctx context.Context) (map[alert.Event][]alert.Sighting, error) {
	words, now := alert.Words{Location: c.Config.Location()}, time.Now()
	seen := map[alert.Event][]alert.Sighting{}
	doors := c.doors(ctx)
	breakers, err := doors.breakers()
	note(seen, alert.BreakerOpenLong, words.Breakers(breakers), err)
	guards, guardErr := doors.guards()
	note(seen, alert.GuardTripped, words.Guards(guards), guardErr)
	live, liveErr := c.live(ctx, doors)
	if liveErr == nil || len(live) > 0 { // one that cannot be read holds up no other
		seen[alert.DeadlineAtRisk] = words.Risks(live, c.Config.Alerts.DeadlineSlack, now)
	}
	ended, endErr := c.Batches.Ended(ctx, now.Add(-endsSeen))
	note(seen, alert.BatchDone, words.Ends(ended), endErr)
	return seen, errors.Join(err, guardErr, liveErr, endErr)
}

func note(seen map[alert.Event][]alert.Sighting, e alert.Event, all []alert.Sighting, err error) {
	if err == nil {
		seen[e] = all
	}
}
