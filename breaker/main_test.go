package breaker

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain also lets the test binary be one of the processes of a race, see
// race_test.go and rerace_test.go.
func TestMain(m *testing.M) {
	if addr := os.Getenv(racerAddr); addr != "" {
		os.Exit(runRacer(addr))
	}
	if addr := os.Getenv(proberAddr); addr != "" {
		os.Exit(runProber(addr))
	}
	goleak.VerifyTestMain(m)
}
