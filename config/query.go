package config

import (
	"maps"
	"slices"
	"time"

	"nightshift/internal/hours"
)

// Queue returns the queue of that name, and false where there is none.
func (c *Config) Queue(name string) (Queue, bool) {
	for _, q := range c.Queues {
		if q.Name == name {
			return q, true
		}
	}
	return Queue{}, false
}

// DefaultQueue returns the first queue of the file.
func (c *Config) DefaultQueue() Queue { return c.Queues[0] }

// QueueNames returns the names in the order of the file.
func (c *Config) QueueNames() []string {
	names := make([]string, len(c.Queues))
	for i, q := range c.Queues {
		names[i] = q.Name
	}
	return names
}

// ModelKeys returns the keys of all models, sorted.
func (c *Config) ModelKeys() []string { return slices.Sorted(maps.Keys(c.Models)) }

// ProviderNames returns the names of all providers, sorted.
func (c *Config) ProviderNames() []string { return slices.Sorted(maps.Keys(c.Providers)) }

// LadderNames returns the names of all ladders, sorted.
func (c *Config) LadderNames() []string { return slices.Sorted(maps.Keys(c.Ladders)) }

// Location returns the time zone.
func (c *Config) Location() *time.Location {
	loc, err := time.LoadLocation(c.Timezone)
	if err != nil {
		return time.Local // a loaded configuration does not come here
	}
	return loc
}

// HoursOf returns the hours of a queue; one that is not in the file is always open.
func (c *Config) HoursOf(queue string) hours.Hours {
	q, _ := c.Queue(queue)
	h, err := hours.Parse(q.Hours, c.Location())
	if err != nil {
		return hours.Hours{} // a loaded configuration does not come here
	}
	return h
}

// RungOf returns the first rung of a ladder whose model has the given key, else
// the first whose model is sent under that name, and false where there is none.
func (c *Config) RungOf(ladder, model string) (int, bool) {
	rungs := c.Ladders[ladder].Rungs
	for _, is := range []func(Rung) bool{
		func(r Rung) bool { return r.Model == model },
		func(r Rung) bool { return r.Model != "" && c.Models[r.Model].Name == model },
	} {
		if i := slices.IndexFunc(rungs, is); i >= 0 && model != "" {
			return i, true
		}
	}
	return 0, false
}

// RungModels returns the keys of a ladder's models in the order of its rungs.
func (c *Config) RungModels(ladder string) []string {
	var keys []string
	for _, r := range c.Ladders[ladder].Rungs {
		if r.Model != "" && !slices.Contains(keys, r.Model) {
			keys = append(keys, r.Model)
		}
	}
	return keys
}
