package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"nightshift/internal/cli"
	"nightshift/provider"
)

// maxBudget is the largest --budget: what the guard can count.
const maxBudget = 1_000_000

// budgetOf reads --budget; "" is none.
func budgetOf(text string) (provider.USD, error) {
	if text == "" {
		return 0, nil
	}
	usd, err := strconv.ParseFloat(strings.TrimPrefix(text, "$"), 64)
	if err != nil || math.IsNaN(usd) || provider.Dollars(min(usd, maxBudget)) <= 0 || usd > maxBudget {
		return 0, cli.Usage(fmt.Sprintf("write it as in 12.50; it may be up to %d", maxBudget), "--budget: %q is no sum of USD", text)
	}
	return provider.Dollars(usd), nil
}
