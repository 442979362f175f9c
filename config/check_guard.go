package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// leastUSD is the smallest limit that means something: a nano-dollar, the unit in
// which costs are counted.
const leastUSD = 1e-9

// guard checks that the hourly guard can do what it is told.
func (c *checker) guard() {
	at := path{"guard"}
	limits := []path{c.usd(at, c.cfg.Guard.USDPerHour)}
	for _, name := range slices.Sorted(maps.Keys(c.cfg.Guard.Producers)) {
		p := at.child("producers").child(name)
		c.producer(p, name)
		limits = append(limits, c.usd(p, c.cfg.Guard.Producers[name].USDPerHour))
	}
	if i := slices.IndexFunc(limits, func(p path) bool { return p != nil }); i >= 0 {
		c.priced(limits[i])
	}
	if c.cfg.Guard.Over == OverDegrade && !c.charges() && !c.problems.under("models") && !c.problems.under("ladders") {
		c.report(at.child("over"), "no rung costs anything, so lines would go on over the limit as if there were none", "give the models that cost something a price, or write over: defer")
	}
}

// usd returns the path of a limit in USD where it is one, else nil.
func (c *checker) usd(p path, limit float64) path {
	at := p.child("usd_per_hour")
	if limit > 0 && limit < leastUSD {
		c.report(at, "too small to be counted", "at least 0.000000001, or 0 for no limit")
	}
	if limit <= 0 || c.problems.under(at.String()) {
		return nil
	}
	return at
}

// producer refuses the names that no producer can have.
func (c *checker) producer(p path, name string) {
	if what, remedy := RefusedProducer(name); what != "" {
		c.report(p, what, remedy)
	}
}

// maxProducer bounds the name of a producer, in bytes: it stands in tables.
const maxProducer = 128

// RefusedProducer says why a name cannot be that of a producer, and what to do;
// "" where it can.
func RefusedProducer(name string) (what, remedy string) {
	switch name {
	case "":
		return "the name of a producer is missing", ""
	case "system":
		return "the producer system is that of probes, which are never refused", "name another"
	case "*":
		return "the producer * stands for all of them", "name another; guard.global_calls_per_hour is the limit of all"
	}
	if len(name) > maxProducer {
		return fmt.Sprintf("the name of a producer has %d bytes; %d are allowed", len(name), maxProducer), "name another"
	}
	if !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fmt.Sprintf("the name of a producer %q has characters that cannot be printed", name), "name another"
	}
	return "", ""
}

// priced refuses rungs whose calls a limit in USD could not count.
func (c *checker) priced(limit path) {
	for _, name := range slices.Sorted(maps.Keys(c.cfg.Ladders)) {
		for i, r := range c.cfg.Ladders[name].Rungs {
			if _, known := c.cfg.Models[r.Model]; !known || c.cfg.PriceOf(r) != nil {
				continue
			}
			at := path{"ladders", name, "rungs"}.index(i)
			if key := (path{"models", r.Model, "price"}).String(); c.problems.under(at.child("price").String()) || c.problems.under(key) {
				continue
			}
			c.report(at, fmt.Sprintf("%s has no price, so %s (line %d) cannot count it", quoted(r.Model), limit, c.at(limit).line),
				"give the model a price; one that costs nothing has price: {input: 0, output: 0}")
		}
	}
}

// charges says whether any rung's calls cost something.
func (c *checker) charges() bool {
	for _, l := range c.cfg.Ladders {
		if slices.ContainsFunc(l.Rungs, func(r Rung) bool { return !c.cfg.PriceOf(r).Free() }) {
			return true
		}
	}
	return false
}
