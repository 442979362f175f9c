package config

import (
	"fmt"
	"maps"
	"net"
	"regexp"
	"slices"
	"strconv"
	"time"
	_ "time/tzdata" // a container from scratch has no time zones

	"nightshift/internal/hours"
)

// checker finds what is wrong between the values of a file, each of which is
// right by itself.
type checker struct {
	*decoder
	cfg     *Config
	env     func(string) (string, bool)
	keyless bool
}

func (c *checker) check() {
	c.redis()
	c.timezone()
	c.breaker(c.cfg.Breaker, path{"breaker"})
	for _, name := range slices.Sorted(maps.Keys(c.cfg.Providers)) {
		c.provider(c.cfg.Providers[name])
	}
	for _, key := range slices.Sorted(maps.Keys(c.cfg.Models)) {
		c.model(c.cfg.Models[key])
	}
	for _, name := range slices.Sorted(maps.Keys(c.cfg.Ladders)) {
		c.ladder(c.cfg.Ladders[name])
	}
	c.queues()
	c.guard()
	c.dashboard()
	c.receivers()
	if !c.keyless {
		c.keyEnv(path{"batches", "notify", "secret_env"}, c.cfg.Batches.Notify.SecretEnv, "export it, or leave secret_env out: messages are not signed then")
	}
}

// report adds a problem at the place of a path.
func (c *checker) report(p path, what, remedy string) {
	c.problem(c.at(p), p, what, remedy)
}

func (c *checker) redis() {
	if _, err := c.cfg.Redis.Target(); err != nil {
		c.report(path{"redis", "url"}, oneLine(err), c.cfg.Redis.Example())
	}
}

func (c *checker) timezone() {
	_, err := time.LoadLocation(c.cfg.Timezone)
	if err != nil || c.cfg.Timezone == "" {
		c.report(path{"timezone"}, quoted(c.cfg.Timezone)+" is not a time zone", "write Local, UTC or a name as in Europe/Berlin")
	}
}

// breaker checks the pairs of a breaker block, or of a model's own fields
// together with what they inherit.
func (c *checker) breaker(b Breaker, p path) {
	c.atMost(p, "failures", "window", b.Failures, b.Window)
	c.atMost(p, "min_results", "window", b.MinResults, b.Window)
	c.atMost(p, "probe_successes", "probes", b.ProbeSuccesses, b.Probes)
	if b.Cooldown > b.MaxCooldown {
		c.pair(p, "cooldown", "max_cooldown", duration(b.Cooldown), duration(b.MaxCooldown))
	}
}

func (c *checker) atMost(p path, low, high string, lowValue, highValue int) {
	if lowValue > highValue {
		c.pair(p, low, high, strconv.Itoa(lowValue), strconv.Itoa(highValue))
	}
}

// pair reports two values that do not go together, where one of them is set at
// p: the block's own problem is not repeated for every model.
func (c *checker) pair(p path, low, high string, lowValue, highValue string) {
	at := p.child(low)
	if !c.isSet(at) {
		at = p.child(high)
	}
	if !c.isSet(at) || c.problems.under(p.child(low).String()) || c.problems.under(p.child(high).String()) {
		return
	}
	c.report(at, fmt.Sprintf("%s (%s) is more than %s (%s)", low, lowValue, high, highValue), fmt.Sprintf("raise %s or lower %s", high, low))
}

var (
	plainName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}$`)
	modelName = regexp.MustCompile(`^[A-Za-z0-9._:/@+-]{1,200}$`)
)

// name checks a name of the user's that becomes part of Redis keys and metrics.
func (c *checker) name(p path, what, name string) {
	if !plainName.MatchString(name) {
		c.report(p, what+" name may hold letters, digits and . _ - only, at most 100", "rename it")
	}
}

func (c *checker) queues() {
	if len(c.cfg.Queues) == 0 && !c.problems.under("queues") {
		c.report(path{"queues"}, "at least one queue is needed", "add one, as in queues: {overnight: {ladder: nightly}}")
	}
	for _, q := range c.cfg.Queues {
		p := path{"queues", q.Name}
		c.name(p, "a queue's", q.Name)
		_, ok := c.cfg.Ladders[q.Ladder]
		switch {
		case q.Ladder == "" && !c.problems.under(p.child("ladder").String()):
			c.report(p, "a queue needs a ladder", DidYouMean("", slices.Collect(maps.Keys(c.cfg.Ladders))))
		case q.Ladder != "" && !ok:
			c.report(p.child("ladder"), fmt.Sprintf("no ladder %s", quoted(q.Ladder)), DidYouMean(q.Ladder, slices.Collect(maps.Keys(c.cfg.Ladders))))
		}
		if _, err := hours.Parse(q.Hours, time.UTC); err != nil {
			c.report(p.child("hours"), err.Error(), hours.Example)
		}
	}
}

// address checks host:port, and says whether there is something to listen on.
func (c *checker) address(p path, addr string) bool {
	if addr == "" {
		return false
	}
	_, port, err := net.SplitHostPort(addr)
	if _, portErr := strconv.ParseUint(port, 10, 16); err != nil || portErr != nil {
		c.report(p, quoted(addr)+" is not an address", "write host:port, as in 127.0.0.1:8080")
		return false
	}
	return true
}
