package tasks

import (
	"slices"
	"testing"
)

func TestSlotsAreSplitAmongServers(t *testing.T) {
	for slots, want := range map[int][]int{
		1: {1}, 64: {64}, 65: {33, 32}, 200: {50, 50, 50, 50}, 10_000: {2500, 2500, 2500, 2500},
	} {
		if got := split(slots); !slices.Equal(got, want) {
			t.Errorf("%d slots: %v, want %v", slots, got, want)
		}
	}
}
