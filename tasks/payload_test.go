package tasks

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"nightshift/batch"
)

func TestPayloadRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ref := batch.Ref{
			Batch:      rapid.StringMatching(`[A-Za-z0-9._-]{1,100}`).Draw(t, "batch"),
			Line:       rapid.Int64Range(1, 1<<40).Draw(t, "line"),
			Generation: rapid.IntRange(0, 1000).Draw(t, "generation"),
		}
		b, err := Encode(ref)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(b)
		if err != nil || got != ref {
			t.Fatalf("got %+v, %v; want %+v", got, err, ref)
		}
	})
}

func TestDecodeRefusesWhatIsNotAReference(t *testing.T) {
	for _, s := range []string{``, `null`, `{}`, `[]`, `{"v":0,"b":"x","l":1}`, `{"v":1,"b":"","l":1}`, `{"v":1,"b":"x","l":0}`, `{"v":1,"b":"x","l":1,"g":-1}`} {
		if ref, err := Decode([]byte(s)); err == nil {
			t.Errorf("Decode(%q) = %+v, want an error", s, ref)
		}
	}
	var newer *VersionError
	if _, err := Decode([]byte(`{"v":2,"b":"x","l":1}`)); !errors.As(err, &newer) || newer.Version != 2 {
		t.Errorf("a newer payload: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"v":1,"b":"x","l":1,"g":0}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		ref, err := Decode(b)
		if err == nil && (ref.Batch == "" || ref.Line < 1 || ref.Generation < 0) {
			t.Fatalf("Decode(%q) = %+v without an error", b, ref)
		}
	})
}

func TestTaskIDIsFixed(t *testing.T) {
	if got := TaskID(batch.Ref{Batch: "night", Line: 42, Generation: 1}); got != "night:00000042.1" {
		t.Error(got)
	}
}
