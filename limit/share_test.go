package limit

import (
	"sync"
	"testing"
)

func TestAModelTakesHalfOfTheSlotsWhileOthersWork(t *testing.T) {
	busy := true
	s := NewShare(10, func(queue string) bool { return busy && queue == "overnight" })
	slow, quick := Model{"p", "p/slow"}, Model{"p", "p/quick"}
	take := func(queue string, m Model, want bool) {
		t.Helper()
		if got := s.Take(queue, m); got != want {
			t.Errorf("a slot of %s for %s: %v, want %v", queue, m.Model, got, want)
		}
	}
	for range 5 {
		take("overnight", slow, true)
	}
	take("overnight", slow, false)
	take("overnight", quick, true)
	take("urgent", slow, true) // nobody else works beside it
	s.Give(slow)
	take("overnight", slow, false)
	s.Give(slow)
	take("overnight", slow, true)
	busy = false
	take("overnight", slow, true)
}

func TestOneSlotIsNobodysHalf(t *testing.T) {
	s := NewShare(1, func(string) bool { return true })
	if m := (Model{"p", "p/a"}); !s.Take("q", m) || s.Take("q", m) {
		t.Error("a worker of one slot must call, once")
	}
	var none *Share
	if none.Give(Model{}); !none.Take("q", Model{}) {
		t.Error("without a share nothing is refused")
	}
}

func TestWhatIsTakenAndGivenIsFree(t *testing.T) {
	s := NewShare(8, func(string) bool { return true })
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			for range 200 {
				if m := (Model{"p", "p/a"}); s.Take("q", m) {
					s.Give(m)
				}
			}
		})
	}
	wg.Wait()
	if len(s.held) != 0 {
		t.Errorf("still held: %v", s.held)
	}
}
