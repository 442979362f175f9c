package dashboard

import (
	"context"
	"net/http"
	"slices"
)

// fleetView is what templates/fleet.html shows.
type fleetView struct {
	FleetStatus
	Live, Lost int
	Hashes     []hashView // of live workers, and of this dashboard
	Versions   []string   // of live workers
	Unserved   []Queue    // queues with lines and no worker
}

// hashView is one configuration of the fleet.
type hashView struct {
	Hash    string
	Workers int
	Here    bool // this dashboard's own
}

// fleetPage shows workers, queues and the keeper.
func (d *Dashboard) fleetPage(ctx context.Context, _ *http.Request) content {
	s := d.see(ctx, partFleet)
	return content{title: "Fleet", section: "fleet", name: "fleet", view: newFleetView(s.fleet), lacks: s.missing}
}

func newFleetView(f FleetStatus) fleetView {
	v := fleetView{FleetStatus: f}
	hash := func(h string) *hashView {
		i := slices.IndexFunc(v.Hashes, func(x hashView) bool { return x.Hash == h })
		if i < 0 {
			v.Hashes = append(v.Hashes, hashView{Hash: h})
			i = len(v.Hashes) - 1
		}
		return &v.Hashes[i]
	}
	for _, w := range f.Workers {
		if w.Lost {
			v.Lost++
			continue
		}
		v.Live++
		hash(w.ConfigHash).Workers++
		if !slices.Contains(v.Versions, w.Version) {
			v.Versions = append(v.Versions, w.Version)
		}
	}
	if f.ConfigHash != "" {
		hash(f.ConfigHash).Here = true
	}
	for _, q := range f.Queues {
		if q.Workers == 0 && q.Out+q.Backlog > 0 {
			v.Unserved = append(v.Unserved, q)
		}
	}
	return v
}

// Busy is how many lines the live workers have in hand.
func (v fleetView) Busy() (n int) {
	for _, w := range v.Workers {
		if !w.Lost {
			n += w.Active()
		}
	}
	return n
}

// AllSlots is how many lines the live workers can have in hand.
func (v fleetView) AllSlots() (n int) {
	for _, w := range v.Workers {
		if !w.Lost {
			n += w.Slots()
		}
	}
	return n
}

// Differs says whether a configuration is not that of this dashboard.
func (v fleetView) Differs(hash string) bool { return v.ConfigHash != "" && hash != v.ConfigHash }

// Slots is how many lines it can have in hand.
func (w Worker) Slots() (n int) {
	for _, q := range w.Queues {
		n += q.Slots
	}
	return n
}

// Active is how many lines it has in hand.
func (w Worker) Active() (n int) {
	for _, q := range w.Queues {
		n += q.Active
	}
	return n
}

// Share is how many of the queue's slots are taken, in thousandths.
func (q Queue) Share() float64 { return thousandths(int64(q.Active), int64(q.Slots)) }
