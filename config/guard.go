package config

import "cmp"

// Of returns the limits of a producer: its own, else those for all; 0: no limit.
func (g Guard) Of(producer string) GuardProducer {
	own := g.Producers[producer]
	return GuardProducer{
		CallsPerHour: cmp.Or(own.CallsPerHour, g.CallsPerHour),
		USDPerHour:   cmp.Or(own.USDPerHour, g.USDPerHour),
	}
}

// Free says whether calls cost nothing as far as is known: there is no price, or
// all of it is zeros.
func (p *Price) Free() bool {
	return p == nil || p.Input == 0 && p.Output == 0 && p.PerCall == 0 && (p.CachedInput == nil || *p.CachedInput == 0)
}

// PriceOf returns what a rung's calls cost: its own price, else its model's; nil:
// it has none, as a text.
func (c *Config) PriceOf(r Rung) *Price {
	if r.Price != nil {
		return r.Price
	}
	return c.Models[r.Model].Price
}
