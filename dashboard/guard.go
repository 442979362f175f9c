package dashboard

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	"nightshift/limit"
	"nightshift/provider"
)

// guardPageView is what templates/guard.html shows.
type guardPageView struct {
	Guards []guardView
	Open   int
}

// guardPage shows what each producer called in the hour, against its limits.
func (d *Dashboard) guardPage(ctx context.Context, _ *http.Request) content {
	s := d.see(ctx, partGuards)
	v := guardPageView{Guards: guardViews(s.guards)}
	v.Open = openGuards(v.Guards)
	return content{title: "Hourly guard", section: "guard", name: "guard", view: v, lacks: s.missing}
}

// guardView is the guard of one producer as the pages show it.
type guardView struct {
	limit.GuardStatus
	Name string
}

// USDUsed and USDLimit are amounts for people.
func (g guardView) USDUsed() provider.USD  { return provider.USD(g.USD) }
func (g guardView) USDLimit() provider.USD { return provider.USD(g.Limits.USD) }

// CallsShare and USDShare are how much of a limit is used, in thousandths.
func (g guardView) CallsShare() float64 { return thousandths(g.Calls, g.Limits.Calls) }
func (g guardView) USDShare() float64   { return thousandths(g.USD, g.Limits.USD) }

// Everybody says that it is the guard over all producers.
func (g guardView) Everybody() bool { return g.Producer == limit.AllProducers }

// State is its state in a word.
func (g guardView) State() string {
	if g.Open {
		return "open"
	}
	return "closed"
}

func thousandths(used, limit int64) float64 {
	if limit <= 0 {
		return 0
	}
	return min(1000, 1000*float64(max(used, 0))/float64(limit))
}

// guardViews are the rows: the open ones first, then who called most. The guard of
// all producers is shown where it has a limit.
func guardViews(all []limit.GuardStatus) []guardView {
	var views []guardView
	for _, g := range all {
		v := guardView{g, g.Producer}
		if v.Everybody() {
			if g.Limits == (limit.GuardLimits{}) {
				continue
			}
			v.Name = "all producers"
		}
		views = append(views, v)
	}
	slices.SortStableFunc(views, func(a, b guardView) int {
		return cmp.Or(strings.Compare(b.State(), a.State()), cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Producer, b.Producer))
	})
	return views
}

func openGuards(all []guardView) (n int) {
	for _, g := range all {
		if g.Open {
			n++
		}
	}
	return n
}
