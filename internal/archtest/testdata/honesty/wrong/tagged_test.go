//go:build integration

package wrong

import "testing"

func TestTagged(t *testing.T) {}
