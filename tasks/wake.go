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

// wakeUp wakes up to room lines that wait for a breaker which is closed now,
// and returns how many.
func (k *Keeper) wakeUp(ctx context.Context, queue string, backlogs []batch.Backlog, room int) (int, error) {
	var waiting []batch.OutEntry
	for _, b := range backlogs {
		if !anyDeferred(b) {
			continue
		}
		out, err := k.backlog.Out(ctx, b.ID)
		if err != nil {
			return 0, fmt.Errorf("read released lines of %s: %w", b.ID, err)
		}
		for _, e := range out {
			if !e.Leased && e.Wait.Open != "" {
				waiting = append(waiting, e)
			}
		}
	}
	k.forgetWoken()
	open, err := k.openModels(ctx, waiting)
	if err != nil {
		return 0, fmt.Errorf("ask breakers: %w", err)
	}
	n := 0
	for _, e := range waiting {
		if n >= room || ctx.Err() != nil {
			break
		}
		id := TaskID(e.Ref)
		if !anyClosed(e, open) || k.woken[id].Equal(e.Wait.Until) {
			continue
		}
		if err := k.queue.wake(queue, e.Ref); err != nil {
			return n, err
		}
		k.woken[id] = e.Wait.Until
		n++
	}
	return n, nil
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
func anyClosed(e batch.OutEntry, open map[string]bool) bool {
	return slices.ContainsFunc(strings.Fields(e.Wait.Open), func(m string) bool {
		is, known := open[m]
		return known && !is
	})
}

// forgetWoken drops what can no longer be woken twice.
func (k *Keeper) forgetWoken() {
	past := k.now().Add(-time.Minute)
	for id, until := range k.woken {
		if until.Before(past) {
			delete(k.woken, id)
		}
	}
}

// openModels asks which of the models are open now.
func (k *Keeper) openModels(ctx context.Context, entries []batch.OutEntry) (map[string]bool, error) {
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
	return k.breakers.Open(ctx, models)
}

// BreakerKeys adapts a breaker store to what the keeper asks.
type BreakerKeys struct {
	Store interface {
		List(ctx context.Context, keys []breaker.Key) ([]breaker.Status, error)
	}
	Keys map[string]breaker.Key // by the model's configuration key
}

// Open implements Breakers. A model whose parent is open is not open to calls,
// whatever its own breaker says.
func (b BreakerKeys) Open(ctx context.Context, models []string) (map[string]bool, error) {
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
	shut := map[breaker.Key]bool{}
	for _, s := range all {
		shut[s.Key] = s.State != breaker.Closed
	}
	open := map[string]bool{}
	for _, k := range keys {
		open[k.Model] = shut[k] || shut[k.Parent()]
	}
	return open, nil
}
