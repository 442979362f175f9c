package provider

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// USD is an amount of money in nano-dollars (1e-9 USD): whole numbers, so that
// sums over a million calls are exact and Redis can count them.
type USD int64

const nanoPerDollar = 1_000_000_000

// Dollars returns the amount of d dollars, rounded to the nearest nano-dollar.
func Dollars(d float64) USD { return USD(math.Round(d * nanoPerDollar)) }

// Float returns the amount in dollars.
func (u USD) Float() float64 { return float64(u) / nanoPerDollar }

// String returns the amount in dollars with no trailing zeros, e.g. "0.00125".
func (u USD) String() string {
	sign, n := "", uint64(u)
	if u < 0 {
		sign, n = "-", uint64(-u)
	}
	s := fmt.Sprintf("%s%d.%09d", sign, n/nanoPerDollar, n%nanoPerDollar)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// MarshalJSON writes the amount as a JSON number of dollars.
func (u USD) MarshalJSON() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalJSON reads a JSON number of dollars.
func (u *USD) UnmarshalJSON(b []byte) error {
	d, err := strconv.ParseFloat(string(b), 64)
	if err != nil {
		return fmt.Errorf("read amount %q: %w", b, err)
	}
	*u = Dollars(d)
	return nil
}
