package main

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// half writes half of what it is given, as a disk that fills up.
type half struct{ w io.Writer }

func (h half) Write(p []byte) (int, error) {
	n, err := h.w.Write(p[:len(p)/2])
	return n, errors.Join(err, syscall.ENOSPC)
}

func TestAFullDiskLeavesNoPieceOfALine(t *testing.T) {
	name := filepath.Join(t.TempDir(), "out.jsonl")
	o, err := openOutput(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.append([]byte("first")); err != nil {
		t.Fatal(err)
	}
	o.w = half{o.file}
	if err := o.append([]byte("second")); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("error %v", err)
	}
	o.w = o.file // there is room again
	if err := errors.Join(o.append([]byte("third")), o.close()); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(name); err != nil || string(got) != "first\nthird\n" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestMendCutsWhatAPowerCutLeaves(t *testing.T) {
	whole := `{"id":"x","custom_id":"c","response":null,"error":null,"nightshift":{"line":1}}`
	for tail, want := range map[string]string{
		"\x00\x00\x00\x00":                 whole + "\n",
		`{"id":"x","cust` + "\x00\x00\x00": whole + "\n",
		`{"id`:                             whole + "\n",
	} {
		name := filepath.Join(t.TempDir(), "out.jsonl")
		if err := os.WriteFile(name, []byte(whole+"\n"+tail), 0o600); err != nil {
			t.Fatal(err)
		}
		o, err := openOutput(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		cut, err := o.mend()
		if err != nil || cut != int64(len(tail)) {
			t.Errorf("%q: cut %d, %v", tail, cut, err)
		}
		if err := o.close(); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%q: %q, %v", tail, got, err)
		}
	}
}

// A buffer that could not be written fails every write from then on, and its flush.
func TestAFullDiskIsNamedOnce(t *testing.T) {
	full := bufio.NewWriter(half{io.Discard})
	_, err := full.Write(make([]byte, 2*full.Size()))
	if err = flush([]*bufio.Writer{full}, err); strings.Count(err.Error(), syscall.ENOSPC.Error()) != 1 {
		t.Error(err)
	}
	late := bufio.NewWriter(half{io.Discard})
	if err := errors.Join(late.WriteByte('x'), flush([]*bufio.Writer{bufio.NewWriter(io.Discard), late}, nil)); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a last piece that cannot be written: %v", err)
	}
}
