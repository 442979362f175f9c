package app

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"nightshift/config"
	"nightshift/internal/redistest"
)

// A connection that falls while it is greeted costs the queue's client that connection,
// not the patience it has for Redis.
func TestQueueLeavesAConnectionThatFellInItsGreeting(t *testing.T) {
	for _, word := range []string{"hello", "setinfo"} {
		t.Run(word, func(t *testing.T) {
			t.Parallel()
			r, err := OpenRedis(config.Redis{URL: "redis://" + fallsAt(t, word)})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			done := make(chan error, 1)
			go func() { done <- r.Queue().Ping(t.Context()).Err() }()
			select {
			case err := <-done:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(5 * greetingLimit):
				t.Error("still waiting for a connection that fell")
			}
		})
	}
}

// fallsAt is the address of a Redis whose first connection falls at this word.
func fallsAt(t *testing.T, word string) string {
	server := redistest.Start(t)
	front, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = front.Close() })
	go func() {
		for first := true; ; first = false {
			c, err := front.Accept()
			if err != nil {
				return
			}
			go pass(c, server.Addr, word, first)
		}
	}()
	return front.Addr().String()
}

// pass carries a connection to Redis, and drops one that falls where it says the word.
func pass(c net.Conn, addr, word string, falls bool) {
	defer c.Close()
	back, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer back.Close()
	go func() {
		defer c.Close()
		_, _ = io.Copy(c, back)
	}()
	buf := make([]byte, 4096)
	for {
		n, err := c.Read(buf)
		if err != nil || falls && bytes.Contains(bytes.ToLower(buf[:n]), []byte(word)) {
			return
		}
		if _, err := back.Write(buf[:n]); err != nil {
			return
		}
	}
}
