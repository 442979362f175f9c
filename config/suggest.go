package config

import (
	"fmt"
	"slices"
	"strings"
)

// DidYouMean names the known word that the given one was probably meant to be,
// or lists the known ones where they are few.
func DidYouMean(word string, known []string) string {
	if best := nearest(word, known); best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	if len(known) == 0 || len(known) > 20 {
		return ""
	}
	sorted := slices.Sorted(slices.Values(known))
	return "known are: " + strings.Join(sorted, ", ")
}

// nearest returns the known word of which the given one is the beginning, or
// that differs in at most a third of its letters; "" when none does.
func nearest(word string, known []string) string {
	word = strings.ToLower(word)
	sorted := slices.Sorted(slices.Values(known))
	if i := slices.IndexFunc(sorted, func(k string) bool { return strings.HasPrefix(strings.ToLower(k), word) }); i >= 0 && len(word) >= 3 {
		return sorted[i]
	}
	best, limit := "", len(word)/3
	for _, k := range sorted {
		if d := distance(word, strings.ToLower(k)); d <= limit {
			best, limit = k, d-1 // the next one must be nearer
		}
	}
	return best
}

// distance is the number of letters to insert, delete, replace or swap.
func distance(a, b string) int {
	const longest = 100 // keys are short; a pasted text is no misspelling
	if len(a) > longest || len(b) > longest {
		return longest
	}
	var before []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next := make([]int, len(b)+1)
		next[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next[j] = min(next[j-1]+1, row[j]+1, row[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
