package breaker

import (
	"fmt"
	"time"
)

// Action is what an operator does to a breaker.
type Action string

// The actions.
const (
	// ForceOpen opens the breaker and holds it open, for a time or until
	// another action. After the time it is probed like any other.
	ForceOpen Action = "open"
	// ForceClose closes it and ends a hold; with a time, it is held closed for
	// that long, whatever fails.
	ForceClose Action = "close"
	// ForceReset has it begin anew: closed, nothing counted, no hold.
	ForceReset Action = "reset"
)

// Force is an operator's wish.
type Force struct {
	Action Action
	For    time.Duration // how long to hold it; 0: see the action
	By     string        // who; kept in the history
}

// Held says who holds a breaker in a state; State "" is nobody.
type Held struct {
	State State
	By    string
	At    time.Time
	Until time.Time // zero: for good
}

// Hold is a Held as the record has it, in ms.
type Hold struct {
	State State // Open, Closed, or "": nobody holds it
	At    int64
	Until int64 // 0: for good
	By    string
}

// never is the Until of a breaker that is held open for good.
const never = 253402300799000 // the end of the year 9999

func (h Hold) held() Held {
	if h.State == "" {
		return Held{}
	}
	held := Held{State: h.State, By: h.By, At: time.UnixMilli(h.At)}
	if h.Until != 0 {
		held.Until = time.UnixMilli(h.Until)
	}
	return held
}

// Validate returns what is wrong with it, or nil.
func (f Force) Validate() error {
	switch {
	case f.Action != ForceOpen && f.Action != ForceClose && f.Action != ForceReset:
		return fmt.Errorf("action %q is not open, close or reset", f.Action)
	case f.For < 0 || f.For > maxHold:
		return fmt.Errorf("for %s is not between 0 and %s", f.For, maxHold)
	case f.Action == ForceReset && f.For != 0:
		return fmt.Errorf("a reset holds nothing, for %s has no meaning", f.For)
	}
	return nil
}

// maxHold is ten years; who means longer means for good.
const maxHold = 10 * 365 * 24 * time.Hour

// by is who did it, never empty.
func (f Force) by() string {
	if by := oneLine(f.By); by != "" {
		return by
	}
	return "somebody"
}

// reason stands in the history.
func (f Force) reason() string {
	verb := map[Action]string{ForceOpen: "held open", ForceClose: "closed", ForceReset: "reset"}[f.Action]
	if f.Action == ForceClose && f.For > 0 {
		verb = "held closed"
	}
	text := verb + " by " + f.by()
	if f.For > 0 {
		text += " for " + f.For.String()
	}
	return oneLine(text)
}

// hold is the hold that it asks for, from now on.
func (f Force) hold(now int64) Hold {
	h := Hold{At: now, By: f.by()}
	if f.For > 0 {
		h.Until = now + max(f.For.Milliseconds(), 1)
	}
	switch {
	case f.Action == ForceOpen:
		h.State = Open
	case f.Action == ForceClose && f.For > 0:
		h.State = Closed
	default:
		return Hold{}
	}
	return h
}

// force does it to one record.
func (r *Record) force(f Force, now int64, s *Settings) Change {
	r.settle(now, s)
	r.begin(now)
	hold := f.hold(now)
	var c Change
	if f.Action == ForceOpen {
		c = r.open(s.Cooldown.Milliseconds(), f.reason(), now)
		if r.Until = hold.Until; r.Until == 0 {
			r.Until = never
		}
	} else {
		c = r.close(f.reason(), now)
	}
	if f.Action == ForceReset {
		r.Outputs = Outputs{}
	}
	r.Hold = hold
	return c
}
