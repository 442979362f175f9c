package batch

import (
	"fmt"
	"runtime"
	"testing"
)

func TestIDsAreFoundAgain(t *testing.T) {
	var s idSet
	const n = 200_000
	for i := range int64(n) {
		if first, repeated := s.add(hashID(fmt.Sprint("id-", i)), i+1); repeated {
			t.Fatalf("line %d repeats line %d", i+1, first)
		}
	}
	for _, i := range []int64{0, 1, 77_777, n - 1} {
		if first, repeated := s.add(hashID(fmt.Sprint("id-", i)), n+1); !repeated || first != i+1 {
			t.Errorf("id-%d: line %d, repeated %t", i, first, repeated)
		}
	}
}

func TestAnIDTakesSixteenBytes(t *testing.T) {
	const n = 1_000_000
	var before, after runtime.MemStats
	s := &idSet{}
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range int64(n) {
		s.add(hashID(fmt.Sprint(i)), i+1)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if got := float64(after.HeapAlloc-before.HeapAlloc) / n; got > 16.5 {
		t.Errorf("%.1f bytes an ID", got)
	}
	runtime.KeepAlive(s)
}
