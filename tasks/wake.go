package tasks

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"nightshift/batch"
	"nightshift/breaker"
)

// wakeUp wakes up to room lines that wait for a breaker which is closed now, for
// the queue, which is open, or for a guard that has room, and one line for each breaker that only a waiting
// line can probe and that is due; it returns how many.
func (k *Keeper) wakeUp(ctx context.Context, queue string, backlogs []batch.Backlog, room int) (int, error) {
	waiting, err := k.waiting(ctx, backlogs)
	if err != nil {
		return 0, err
	}
	k.forgetWoken()
	doors, err := k.doors(ctx, waiting)
	if err != nil {
		return 0, fmt.Errorf("ask breakers: %w", err)
	}
	n, err := k.wakeProbes(queue, waiting, doors)
	for _, e := range waiting {
		if n >= room || err != nil || ctx.Err() != nil {
			break
		}
		if e.Wait.Reason != batch.ReasonHours && !anyClosed(e, doors) || k.wasWoken(e) {
			continue
		}
		var awake bool
		if awake, err = k.wake(queue, e); awake {
			n++
		}
	}
	if err != nil {
		return n, err
	}
	guarded, err := k.wakeGuarded(ctx, queue, backlogs, waiting, room-n)
	return n + guarded, err
}

// waiting returns the lines that wait for breakers, guards or hours and that no
// attempt holds.
func (k *Keeper) waiting(ctx context.Context, backlogs []batch.Backlog) ([]batch.OutEntry, error) {
	var waiting []batch.OutEntry
	for _, b := range backlogs {
		if !anyDeferred(b) {
			continue
		}
		out, err := k.backlog.Out(ctx, b.ID)
		if err != nil {
			return nil, fmt.Errorf("read released lines of %s: %w", b.ID, err)
		}
		for _, e := range out {
			if !e.Leased && (e.Wait.Open != "" || e.Wait.Guard || e.Wait.Reason == batch.ReasonHours) {
				waiting = append(waiting, e)
			}
		}
	}
	return waiting, nil
}

func (k *Keeper) wake(queue string, e batch.OutEntry) (awake bool, err error) {
	if awake, err = k.queue.wake(queue, e.Ref); awake {
		k.woken[TaskID(e.Ref)] = woken{e.Ref.Batch, e.Wait.Deferral, k.now()}
	}
	return awake, err
}

// woken is a wait that the keeper ended. It stays in the line's entry until an
// attempt begins.
type woken struct {
	batch    string
	deferral int
	at       time.Time
}

// wokenFor is how long that is remembered. A line whose task is still pending
// then is woken again, which does nothing.
const wokenFor = time.Minute

func (k *Keeper) wasWoken(e batch.OutEntry) bool {
	w, is := k.woken[TaskID(e.Ref)]
	return is && w.deferral == e.Wait.Deferral
}

// wakeProbes wakes a line for each probe that is due, once a probe, and returns
// how many. Should that line not come to it, the others ask when their own time
// has come.
func (k *Keeper) wakeProbes(queue string, waiting []batch.OutEntry, doors map[string]Door) (int, error) {
	n := 0
	for probe, e := range probers(waiting, doors) {
		if k.probed[probe.Breaker] == probe {
			continue
		}
		awake, err := k.wake(queue, e)
		if err != nil {
			return n, err
		}
		if awake {
			k.probed[probe.Breaker] = probe
			n++
		}
	}
	return n, nil
}

// probers returns the line to wake for each probe that is due: the first that
// may be the probe itself, else the first that has one of ours sent.
func probers(waiting []batch.OutEntry, doors map[string]Door) map[Probe]batch.OutEntry {
	lines := map[Probe]batch.OutEntry{}
	for _, e := range waiting {
		for _, m := range strings.Fields(e.Wait.Open) {
			probe := doors[m].Probe
			has, taken := lines[probe]
			if probe != (Probe{}) && (!taken || has.Wait.NoProbe && !e.Wait.NoProbe) {
				lines[probe] = e
			}
		}
	}
	return lines
}

func anyDeferred(b batch.Backlog) bool {
	for _, n := range b.Deferred {
		if n > 0 {
			return true
		}
	}
	return false
}

// anyClosed says whether a breaker that refused the line is closed now. One
// that this process does not know, because its configuration is another, is not
// taken for closed: its lines would be woken for nothing, again and again.
func anyClosed(e batch.OutEntry, doors map[string]Door) bool {
	return slices.ContainsFunc(strings.Fields(e.Wait.Open), func(m string) bool { return doors[m].Open })
}

// forgetWoken drops what can no longer be woken twice.
func (k *Keeper) forgetWoken() {
	past := k.now().Add(-wokenFor)
	for id, w := range k.woken {
		if w.at.Before(past) {
			delete(k.woken, id)
		}
	}
}

// doors asks about the models that the lines wait for.
func (k *Keeper) doors(ctx context.Context, entries []batch.OutEntry) (map[string]Door, error) {
	seen := map[string]bool{}
	var models []string
	for _, e := range entries {
		for _, m := range strings.Fields(e.Wait.Open) {
			if !seen[m] {
				seen[m] = true
				models = append(models, m)
			}
		}
	}
	if len(models) == 0 {
		return nil, nil
	}
	return k.breakers.Doors(ctx, models)
}

// BreakerKeys adapts a breaker store to what the keeper asks.
type BreakerKeys struct {
	Store interface {
		List(ctx context.Context, keys []breaker.Key) ([]breaker.Status, error)
	}
	Keys map[string]breaker.Key // by the model's configuration key
}

// Doors implements Breakers. A model whose parent is open is not open to calls,
// whatever its own breaker says.
func (b BreakerKeys) Doors(ctx context.Context, models []string) (map[string]Door, error) {
	var keys []breaker.Key
	for _, m := range models {
		if k, ok := b.Keys[m]; ok {
			keys = append(keys, k)
		}
	}
	all, err := b.Store.List(ctx, append(breaker.Parents(keys), keys...))
	if err != nil {
		return nil, err
	}
	states := map[breaker.Key]breaker.Status{}
	for _, s := range all {
		states[s.Key] = s
	}
	doors := map[string]Door{}
	for _, k := range keys {
		doors[k.Model] = door(states[k], states[k.Parent()])
	}
	return doors, nil
}

// door is what the breakers of a model and its parent say together: the parent
// is probed through a model that is not shut by itself.
func door(model, parent breaker.Status) Door {
	shut := parent
	switch {
	case parent.State == breaker.Closed && model.State == breaker.Closed:
		return Door{Open: true}
	case parent.State == breaker.Closed:
		shut = model
	case model.State != breaker.Closed && !model.TaskDue:
		return Door{}
	}
	if !shut.TaskDue {
		return Door{}
	}
	return Door{Probe: Probe{Breaker: shut.Key.String(), State: shut.State, Until: shut.Until}}
}
