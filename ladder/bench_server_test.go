package ladder

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const (
	benchBody  = `{"messages":[{"role":"system","content":"You are brief."},{"role":"user","content":"Summarise the following text in one sentence, please."}],"temperature":0.2,"max_tokens":200}`
	benchWords = 50
)

// plainReply is an answer as one body.
func plainReply() string {
	body := `{"id":"chatcmpl-1","object":"chat.completion","created":1733000000,"model":"a","choices":[{"index":0,"message":{"role":"assistant","content":"` +
		strings.Repeat(" word", benchWords) + `","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":20,"completion_tokens":50,"total_tokens":70}}`
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// streamReply is the same answer as a stream, a chunk a token. The first one is
// in head, so that a server can hold the rest back.
func streamReply() (head, rest string) {
	event := func(text string) string {
		text = "data: " + text + "\n\n"
		return fmt.Sprintf("%x\r\n%s\r\n", len(text), text)
	}
	chunk := func(choices string) string {
		return event(`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1733000000,"model":"a","system_fingerprint":"fp_1","choices":[` + choices + `]}`)
	}
	token := chunk(`{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}`)
	head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" +
		chunk(`{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}`) + token
	rest = strings.Repeat(token, benchWords-1) + chunk(`{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}`) +
		event(`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1733000000,"model":"a","choices":[],"usage":{"prompt_tokens":20,"completion_tokens":50,"total_tokens":70}}`) +
		event("[DONE]") + "0\r\n\r\n"
	return head, rest
}

// instant is a server that answers every request with the same bytes, without
// an allocation of its own: what is measured is the client's.
type instant struct {
	url  string
	hold chan struct{} // nil: it holds nothing back; else the rest comes when it is closed

	mu    sync.Mutex
	conns []net.Conn
	held  chan struct{} // a word for every response that is held back
}

func newInstant(b *testing.B, head, rest string, hold chan struct{}) *instant {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	s := &instant{url: "http://" + l.Addr().String() + "/v1", hold: hold, held: make(chan struct{}, 10_000)}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, conn)
			s.mu.Unlock()
			serving.Go(func() { s.serve(conn, []byte(head), []byte(rest)) })
		}
	})
	b.Cleanup(func() {
		_ = l.Close()
		s.mu.Lock()
		for _, c := range s.conns {
			_ = c.Close()
		}
		s.mu.Unlock()
		serving.Wait()
	})
	return s
}

// serve answers until the client goes away.
func (s *instant) serve(conn net.Conn, head, rest []byte) {
	r := bufio.NewReader(conn)
	length := []byte("Content-Length: ")
	for {
		size := 0
		for {
			line, err := r.ReadSlice('\n')
			if err != nil {
				return
			}
			if len(bytes.TrimSpace(line)) == 0 {
				break
			}
			if n, ok := bytes.CutPrefix(line, length); ok {
				size, _ = strconv.Atoi(string(bytes.TrimSpace(n)))
			}
		}
		if _, err := r.Discard(size); err != nil {
			return
		}
		_, _ = conn.Write(head) // a client that goes away shows at the next read
		if s.hold != nil {
			s.held <- struct{}{}
			<-s.hold
		}
		_, _ = conn.Write(rest)
	}
}

// drainAll reads a body to its end, as a client must to use the connection again.
func drainAll(r io.ReadCloser) error {
	_, err := io.ReadAll(r)
	_ = r.Close()
	return err
}
