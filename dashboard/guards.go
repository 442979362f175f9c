package dashboard

import (
	"cmp"
	"context"
	"slices"

	"nightshift/limit"
	"nightshift/provider"
)

// Guards is what the dashboard needs of package limit.
type Guards interface {
	// List returns the hourly guards of producers, and that of all of them.
	List(ctx context.Context) ([]limit.GuardStatus, error)
}

// guardView is one row of the guards' table.
type guardView struct {
	limit.GuardStatus
	Name string
}

// USDUsed and USDLimit are amounts for people.
func (g guardView) USDUsed() provider.USD  { return provider.USD(g.USD) }
func (g guardView) USDLimit() provider.USD { return provider.USD(g.Limits.USD) }

// guardViews are the rows: the open ones first. The guard of all producers is
// shown where it has a limit.
func guardViews(all []limit.GuardStatus) []guardView {
	var views []guardView
	for _, g := range all {
		v := guardView{g, g.Producer}
		if g.Producer == limit.AllProducers {
			if g.Limits == (limit.GuardLimits{}) {
				continue
			}
			v.Name = "all producers"
		}
		views = append(views, v)
	}
	slices.SortStableFunc(views, func(a, b guardView) int {
		return cmp.Or(cmp.Compare(closed(a), closed(b)), cmp.Compare(a.Producer, b.Producer))
	})
	return views
}

func closed(g guardView) int {
	if g.Open {
		return 0
	}
	return 1
}
