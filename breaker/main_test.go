package breaker

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain also lets the test binary be one of the processes of a race, see
// TestCase10_EightProcesses.
func TestMain(m *testing.M) {
	if addr := os.Getenv(racerAddr); addr != "" {
		os.Exit(runRacer(addr))
	}
	goleak.VerifyTestMain(m)
}
