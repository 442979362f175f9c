package limit

import (
	"fmt"
	"strconv"
	"strings"
)

// This file knows how a state stands in Redis: see lua/pace.lua.

// paced are the numbers of the field "pace", in its order.
func (n *numbers) paced() []*int64 {
	return []*int64{
		&n.At, &n.Kept, &n.Req, &n.Tok, &n.Flight, &n.Waiting, &n.NextEnd,
		&n.Seq, &n.WaitTok, &n.Last, &n.Begun, &n.Passed, &n.Limited, &n.Latency,
	}
}

// learned are the numbers of the field "learned", in its order.
func (a *adapted) learned() []*int64 {
	return []*int64{
		&a.Window, &a.WindowAt, &a.Rate, &a.Estimate, &a.Sure, &a.GrowAt, &a.Pressed,
		&a.MarkAt, &a.MarkN, &a.Lost, &a.Anew, &a.EventAt, &a.Crowd, &a.ParkTo,
		&a.Idle, &a.Smooth, &a.Full, &a.Cap, &a.CapAt, &a.CapWait, &a.Grown,
		&a.Safe, &a.Proven, &a.Ramp, &a.ToldRate, &a.ToldTPM, &a.ToldAt, &a.Hold,
	}
}

// decodeState reads a state's numbers and parks, without its tickets. What is
// missing or damaged is zero, as the scripts take it.
func decodeState(hash map[string]string) *state {
	s := newState()
	if !scan(hash["pace"], s.paced()) {
		s.numbers = numbers{}
	}
	if !scan(hash["learned"], s.adapted.learned()) {
		s.adapted = adapted{}
	}
	for field, text := range hash {
		if lane, ok := strings.CutPrefix(field, "park:"); ok {
			var st State
			if scan(text, []*int64{&st.At, &st.Until, &st.Wait}) {
				s.Parks[lane] = st
			}
		}
	}
	return s
}

// scan reads whole numbers and says whether the text is exactly so many.
func scan(text string, into []*int64) bool {
	words := strings.Fields(text)
	if len(words) != len(into) {
		return false
	}
	for i, w := range words {
		n, err := strconv.ParseInt(w, 10, 64)
		if err != nil {
			return false
		}
		*into[i] = n
	}
	return true
}

// decodeSlot reads an answer of reserve.lua.
func decodeSlot(list []any) (Slot, error) {
	if len(list) != 4 {
		return Slot{}, fmt.Errorf("unexpected reply %v", list)
	}
	verdict, ok1 := list[0].(int64)
	wait, ok2 := list[1].(int64)
	reason, ok3 := list[2].(string)
	left, ok4 := list[3].(int64)
	if !ok1 || !ok2 || !ok3 || !ok4 {
		return Slot{}, fmt.Errorf("unexpected reply %v", list)
	}
	return Slot{Verdict: Verdict(verdict), Wait: millis(wait), Reason: Reason(reason), Parked: millis(left)}, nil
}
