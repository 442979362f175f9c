package dashboard_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nightshift/batch"
	"nightshift/breaker"
	"nightshift/dashboard"
)

var csrfField = regexp.MustCompile(`name="csrf" value="([^"]+)"`)

// form opens the question of a change and sends its form with more values.
func (b *bundle) form(t *testing.T, question string, more url.Values) answer {
	t.Helper()
	page := b.get(t, question)
	if page.status != http.StatusOK {
		t.Fatalf("%s: status %d: %s", question, page.status, text(page.body))
	}
	values := url.Values{}
	for _, m := range regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)">`).FindAllStringSubmatch(page.body, -1) {
		values.Set(m[1], m[2])
	}
	for name, v := range more {
		values[name] = v
	}
	action := regexp.MustCompile(`action="(/[^"]+/(?:force|release|cancel|retry))"`).FindStringSubmatch(page.body)
	if action == nil || csrfField.FindString(page.body) == "" {
		t.Fatalf("%s has no form with a token: %s", question, page.body)
	}
	return b.send(t, http.MethodPost, action[1], func(r *http.Request) {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		body := values.Encode()
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	})
}

// changes are what people can do: the question, its form, and what comes of it.
var changes = map[string]struct {
	question string
	says     []string
	more     url.Values
	want     any
	to       string
	done     string
}{
	"open": {
		"/breakers/force?do=open&name=openai/gpt-4o",
		[]string{"Open the breaker of openai/gpt-4o?", "No call goes to the model openai/gpt-4o any more", "until somebody closes it"},
		url.Values{"for": {"2h"}},
		forced{premium, breaker.Force{Action: breaker.ForceOpen, For: 2 * time.Hour, By: "the dashboard"}},
		"/breakers?done=open&of=openai%2Fgpt-4o", "Held open: openai/gpt-4o",
	},
	"close a parent": {
		"/breakers/force?do=close&name=openai@eastus",
		[]string{"Calls go to all models of openai@eastus at once"},
		nil,
		forced{openaiKey, breaker.Force{Action: breaker.ForceClose, By: "the dashboard"}},
		"/breakers?done=close&of=openai%40eastus", "Closed: openai@eastus",
	},
	"reset": {
		"/breakers/force?do=reset&name=local/llama3.1:8b",
		[]string{"begin anew?"},
		nil,
		forced{local, breaker.Force{Action: breaker.ForceReset, By: "the dashboard"}},
		"/breakers?done=reset&of=local%2Fllama3.1%3A8b", "Begins anew: local/llama3.1:8b",
	},
	"release": {
		"/guard/release?producer=ada",
		[]string{"Release the guard of ada?", "as many calls as an hour allows"},
		nil,
		released{"ada", "the dashboard"},
		"/guard?done=release&of=ada", "Released: ada",
	},
	"cancel": {
		"/batches/summaries-2026-10-05/cancel",
		[]string{"Cancel summaries-2026-10-05?", "4,125 lines have no result yet."},
		nil,
		cancelled{"summaries-2026-10-05"},
		"/batches/summaries-2026-10-05?done=cancel&of=summaries-2026-10-05", "Cancelled; what was finished keeps its result: summaries-2026-10-05",
	},
	"retry a group": {
		"/batches/summaries-2026-10-05/retry?code=invalid_request",
		[]string{"Run 39 lines of summaries-2026-10-05 again?", "that ended as invalid request"},
		nil,
		retried{"summaries-2026-10-05", batch.Retry{Codes: []string{"invalid_request"}}},
		"/batches/summaries-2026-10-05?done=retry&of=39", "Lines that will run again: 39",
	},
	"retry all": {
		"/batches/summaries-2026-10-05/retry",
		[]string{"Run 165 lines"},
		nil,
		retried{"summaries-2026-10-05", batch.Retry{}},
		"/batches/summaries-2026-10-05?done=retry&of=39", "",
	},
	"retry past the deadline": {
		"/batches/late/retry",
		[]string{"it needs a new one", "Done within"},
		url.Values{"deadline": {"2h"}},
		retried{"late", batch.Retry{Deadline: now.Add(2 * time.Hour)}},
		"/batches/late?done=retry&of=39", "",
	},
}

func TestChanges(t *testing.T) {
	late := now.Add(-time.Minute)
	for name, tt := range changes {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			b := setup(t, func(o *dashboard.Options) {
				withNight(o)
				o.Logger = slog.New(slog.NewTextHandler(&log, nil))
			})
			b.fill()
			b.batches.list = append(b.batches.list, batch.Status{ID: "late", State: batch.Done, Total: 1, Expired: 1, EndedAs: map[string]int64{"batch_expired": 1}, Deadline: &late})
			b.changes.n = 39
			wantAll(t, text(b.get(t, tt.question).body), tt.says...)
			if len(b.changes.did) > 0 {
				t.Fatal("the question alone did it")
			}
			got := b.form(t, tt.question, tt.more)
			if got.status != http.StatusSeeOther || got.header.Get("Location") != tt.to {
				t.Fatalf("status %d to %q: %s", got.status, got.header.Get("Location"), text(got.body))
			}
			if diff := cmp.Diff([]any{tt.want}, b.changes.did); diff != "" {
				t.Error(diff)
			}
			if tt.done != "" {
				wantAll(t, text(b.get(t, tt.to).body), tt.done)
			}
			if lines := strings.Count(log.String(), "remote="); lines != 1 {
				t.Errorf("the change is %d lines of the log:\n%s", lines, log.String())
			}
		})
	}
}

// A change without the token of its page is refused, and so does nothing.
func TestChangesWithoutAToken(t *testing.T) {
	b := setup(t, withNight)
	b.fill()
	for _, path := range []string{"/breakers/force?do=open&name=openai/gpt-4o", "/guard/release?producer=ada", "/batches/translations/cancel", "/batches/translations/retry"} {
		if got := b.do(t, http.MethodPost, path, ""); got.status != http.StatusForbidden {
			t.Errorf("%s: status %d", path, got.status)
		}
	}
	if len(b.changes.did) > 0 {
		t.Errorf("it did %v", b.changes.did)
	}
}

// What cannot be done says why, and names no secret.
func TestChangesThatFail(t *testing.T) {
	b := setup(t, withNight)
	b.fill()
	for path, want := range map[string]string{
		"/breakers/force?do=open&name=nothing":          "The configuration of this dashboard has no such breaker.",
		"/breakers/force?do=explode&name=openai/gpt-4o": "no such breaker",
		"/guard/release":                    "Name a producer.",
		"/batches/none/cancel":              "There is no batch none.",
		"/batches/titles-2026-10-04/cancel": "The batch is done already.",
		"/batches/translations/retry":       "No line of the batch is to be run again.",
	} {
		if got := b.get(t, path); got.status != http.StatusNotFound && got.status != http.StatusConflict || !strings.Contains(text(got.body), want) {
			t.Errorf("%s: status %d: %s", path, got.status, text(got.body))
		}
	}
	if got := b.form(t, "/breakers/force?do=open&name=openai/gpt-4o", url.Values{"for": {"for ever"}}); got.status != http.StatusConflict {
		t.Errorf("a hold for ever: status %d", got.status)
	}
	if got := b.form(t, "/breakers/force?do=reset&name=openai/gpt-4o", url.Values{"for": {"1h"}}); got.status != http.StatusConflict || !strings.Contains(text(got.body), "a reset holds nothing") {
		t.Errorf("a reset that holds: status %d: %s", got.status, text(got.body))
	}
	const question = "/batches/summaries-2026-10-05/retry"
	for want, err := range map[string]error{
		"The batch was cancelled.":                  batch.ErrCancelled,
		"The deadline of the batch has passed.":     batch.ErrDeadline,
		"The batch is not submitted completely.":    batch.ErrEnqueuing,
		"There is no batch summaries-2026-10-05.":   batch.ErrNotFound,
		"enqueue update summaries-2026-10-05 --bud": dashboard.ErrBudgetSpent,
		"It could not be done. The log of this":     errors.New("dial tcp: secret detail"),
	} {
		b.changes.did, b.changes.err = nil, fmt.Errorf("retry: %w", err)
		got := b.form(t, question, nil)
		if page := text(got.body); got.status < 400 || !strings.Contains(page, want) || strings.Contains(page, "secret") {
			t.Errorf("%v: status %d: %s", err, got.status, page)
		}
	}
	b.changes.n, b.changes.err = 7, fmt.Errorf("retry: %w", context.DeadlineExceeded)
	if got := b.form(t, question, nil); got.header.Get("Location") != "/batches/summaries-2026-10-05?done=more&of=7" {
		t.Errorf("cut short: status %d to %q", got.status, got.header.Get("Location"))
	}
	if page := text(b.get(t, "/guard?done=nonsense&of=evil").body); strings.Contains(page, "evil") {
		t.Error("a link has the page say what it likes")
	}
}
