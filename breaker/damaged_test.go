package breaker

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"nightshift/internal/redistest"
)

// damages are what a person, an older version or a broken disk may leave in a record.
var damages = []struct{ field, value string }{
	{"state", "ajar"},
	{"epoch", "abc"},
	{"open_until", "soon"},
	{"cooldown", "-"},
	{"wanted", "x"},
	{"not_before", "later"},
	{"ring", "1750000000000-,17500"},
	{"ring", "175000000000g-,175000000000h-,"},
	{"seen", "0123456789abcdef,"},
	{"leases", "junk"},
	{"hold", "open"},
	{"history", "junk\n"},
	{"outputs", "??"},
	{"wants", "junk\n"},
}

// A record that cannot be read must not stop its breaker for ever, nor hide or
// stop any other: it counts on, opens, and can be reset.
func TestADamagedRecordStopsNothing(t *testing.T) {
	rdb := redistest.Client(t)
	for i, d := range damages {
		for _, open := range []bool{false, true} {
			for _, ofParent := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %q, open %v, parent %v", d.field, d.value, open, ofParent), func(t *testing.T) {
					b := &bundle{T: t, settings: Settings{Window: 4, Failures: 2}.WithDefaults(), now: time.UnixMilli(1_750_000_000_000)}
					b.key = Key{Provider: fmt.Sprint("p", i, open, ofParent), Model: "a"}
					b.store = b.onRedis(rdb)
					b.fails(1)
					if open {
						b.fails(1)
						b.rejected()
						b.pass(b.settings.Cooldown)
					}
					damaged := b.key
					if ofParent {
						damaged = b.key.Parent()
					}
					if err := rdb.HSet(t.Context(), breakerKey(damaged), d.field, d.value).Err(); err != nil {
						t.Fatal(err)
					}
					b.goesOn(damaged)
				})
			}
		}
	}
}

// goesOn asks a breaker whose record is damaged everything there is to ask.
func (b *bundle) goesOn(damaged Key) {
	b.Helper()
	b.due()
	b.status()
	for range 3 { // it opens, if it is not open
		tk, err := b.store.Admit(b.Context(), b.key)
		if err == nil {
			err = b.store.Report(b.Context(), tk, Report{Outcome: Failure})
		}
		var open *OpenError
		if err != nil && !errors.As(err, &open) {
			b.Fatal(err)
		}
	}
	b.wantState(Open)
	b.rejected()
	b.pass(b.settings.MaxCooldown)
	b.report(b.probe(), Report{Outcome: Success})
	b.wantState(Closed)
	if err := b.store.Force(b.Context(), damaged, Force{Action: ForceReset}); err != nil {
		b.Error(err)
	}
	b.fails(2)
	b.wantState(Open)
}

// A ring that is cut in the middle is dropped by the next result, whatever that is.
func TestADamagedRingIsMended(t *testing.T) {
	for name, o := range map[string]Outcome{"success": Success, "failure": Failure} {
		t.Run(name, func(t *testing.T) {
			rdb := redistest.Client(t)
			b := &bundle{T: t, settings: Settings{}.WithDefaults(), now: time.UnixMilli(1_750_000_000_000), key: Key{Provider: "p", Model: "a"}}
			b.store = b.onRedis(rdb)
			b.fails(1)
			if err := rdb.HSet(t.Context(), breakerKey(b.key), "ring", "1750000000000-,17500").Err(); err != nil {
				t.Fatal(err)
			}
			if st := b.status(); st.Reason == "" {
				t.Errorf("nobody is told of the damage: %+v", st)
			}
			b.report(b.admit(), Report{Outcome: o})
			if st := b.status(); st.Reason != "" || st.Results != 1 {
				t.Errorf("after a %s: %+v", name, st)
			}
		})
	}
}
