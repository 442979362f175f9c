package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// hook starts a receiver of --notify and puts its URL into HOOK: hook FILE SECRET
//
// It appends to FILE a line for each message, "signed" or what is wrong with the
// signature, then the body. The first message of a batch named flaky is refused.
func hook(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: hook FILE SECRET")
	}
	check, err := standardwebhooks.NewWebhook(args[1])
	ts.Check(err)
	file, err := os.Create(ts.MkAbs(args[0]))
	ts.Check(err)
	flaky := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // it was cut off
		}
		word := "signed"
		if err := check.Verify(body, r.Header); err != nil {
			word = err.Error()
		}
		var m struct{ Data struct{ ID string } }
		if json.Unmarshal(body, &m) == nil && m.Data.ID == "flaky" {
			if flaky++; flaky == 1 {
				w.WriteHeader(http.StatusBadGateway)
			}
		}
		_, _ = file.WriteString(word + " " + string(body) + "\n")
	}))
	ts.Defer(func() {
		s.Close()
		file.Close()
	})
	ts.Setenv("HOOK", strings.Replace(s.URL, "http://", "http://user:hunter2@", 1)+"/hook?token=hunter2")
}
