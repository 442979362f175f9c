package batch

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// pieces are lines as a file has them.
func pieces() []Line {
	return []Line{
		{Number: 1, CustomID: "a", Endpoint: "/x", Body: []byte(`{"n": 1}`), Digest: "0123456789abcdef"},
		{Number: 3, CustomID: "b", Endpoint: "/x", Body: []byte(`{}`), Metadata: []byte(`{"t":1}`), Digest: "fedcba9876543210", Rung: 2, NoProbe: true, Goal: "speed"},
		{Number: 4, CustomID: "c", Endpoint: "/x", Body: []byte(`{}`), Schema: []byte(`{"type" : "object"}`), Digest: "0123456789abcdef"},
	}
}

func TestAChunkComesBackAsItWas(t *testing.T) {
	b, err := encodeChunk(nil, pieces())
	must(t, err)
	got, err := decodeChunk(b)
	must(t, err)
	if diff := cmp.Diff(pieces(), got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

// A chunk that an older worker wrote has no flags.
func TestAChunkWithoutFlagsIsRead(t *testing.T) {
	want := pieces()
	want[1].NoProbe, want[1].Goal, want[2].Schema = false, "", nil
	b := []byte{chunkFlagless, 3}
	for _, l := range want {
		digest, err := hex.DecodeString(l.Digest)
		must(t, err)
		b = append(b, byte(l.Number), byte(l.Rung))
		for _, f := range [][]byte{digest, []byte(l.CustomID), []byte(l.Endpoint), l.Metadata, l.Body} {
			b = append(binary.AppendUvarint(b, uint64(len(f))), f...)
		}
	}
	got, err := decodeChunk(b)
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestAChunkOfAnotherVersionIsRefused(t *testing.T) {
	b, err := encodeChunk(nil, pieces()[:1])
	must(t, err)
	for name, harm := range map[string]func([]byte){
		"version":      func(b []byte) { b[0] = chunkVersion + 1 },
		"unknown goal": func(b []byte) { b[4] = byte(len(goals)) << chunkGoal },
	} {
		bad := append([]byte{}, b...)
		harm(bad)
		if _, err := decodeChunk(bad); !errors.Is(err, errChunk) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What a line says of probes reaches the attempt, and the keeper that wakes it.
func TestProbeSafeStaysWithTheLine(t *testing.T) {
	b := setup(t)
	full := `{"custom_id":"b","probe_safe":false,"method":"POST","url":"/v1/chat/completions","body":{"messages":[1]}}`
	b.submit(t, "p", `{"id":"a","prompt":"x","probe_safe":false}`+"\n"+full+"\n"+`{"id":"c","prompt":"x","probe_safe":true}`+"\n"+openAI("d"))
	want := []bool{true, true, false, false}
	for i, ref := range b.release(t, "p", 4) {
		begun := b.begin(t, ref, "t", Granted)
		if begun.Line.NoProbe != want[i] {
			t.Errorf("line %d: no probe is %t", ref.Line, begun.Line.NoProbe)
		}
		must(t, b.Suspend(t.Context(), Lease{ref, "t"}, begun.Progress, Wait{Reason: "r", NoProbe: begun.Line.NoProbe}))
	}
	out, err := b.Out(t.Context(), "p")
	must(t, err)
	for i, e := range out {
		if e.Wait.NoProbe != want[i] {
			t.Errorf("line %d waits with no probe %t", e.Ref.Line, e.Wait.NoProbe)
		}
	}
}
