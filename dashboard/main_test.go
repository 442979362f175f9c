package dashboard_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(tests{m}) }

// tests runs all tests and then ends the browser that they share.
type tests struct{ *testing.M }

func (t tests) Run() int {
	code := t.M.Run()
	stopBrowser()
	return code
}
