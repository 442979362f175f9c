package wrong

import "testing"

func TestSkips(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	t.SkipNow()
}
