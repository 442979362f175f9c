package tasks

import (
	"slices"
	"testing"
)

func TestSlotsAreSplitAmongServers(t *testing.T) {
	for slots, want := range map[int][]int{
		1: {1}, 16: {16}, 17: {9, 8}, 50: {13, 13, 12, 12}, 10_000: {2500, 2500, 2500, 2500},
	} {
		if got := split(slots); !slices.Equal(got, want) {
			t.Errorf("%d slots: %v, want %v", slots, got, want)
		}
	}
}
