package door

import (
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// Every change is one line: who, from where, what, on what, and how it ended.
func TestAudit_OneLineAChange(t *testing.T) {
	r := setup(t, nil)
	cookie, csrf := r.login(t)
	login := r.logged(t)
	if len(login) != 1 || login[0]["msg"] != "login to the dashboard" || login[0]["remote"] != "192.0.2.1:1234" {
		t.Fatalf("the login is logged as %v", login)
	}
	who, _ := login[0]["who"].(string)
	if !regexp.MustCompile(`^session [0-9a-f]{8}$`).MatchString(who) {
		t.Errorf("the session is called %q", who)
	}
	for name, c := range map[string]struct {
		page                        func(http.ResponseWriter, *http.Request)
		how                         []with
		level, who, what, on, ended string
		status                      float64
	}{
		"named": {func(w http.ResponseWriter, q *http.Request) {
			Audit(q, "open breaker", "openai/gpt-4o", slog.String("for", "10m"))
			w.WriteHeader(http.StatusSeeOther)
		}, []with{session(cookie), header(Header, csrf)}, "INFO", who, "open breaker", "openai/gpt-4o", "done", 303},
		"unnamed": {
			func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(nil) },
			[]with{bearing(secret)},
			"INFO", "bearer", "POST", "/batches/x/cancel", "done", 200,
		},
		"refused": {
			func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusConflict) },
			[]with{bearing(secret)},
			"WARN", "bearer", "POST", "/batches/x/cancel", "refused", 409,
		},
		"failed": {
			func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusInternalServerError) },
			[]with{bearing(secret)},
			"ERROR", "bearer", "POST", "/batches/x/cancel", "failed", 500,
		},
		"silent": {
			func(http.ResponseWriter, *http.Request) {},
			[]with{bearing(secret)},
			"INFO", "bearer", "POST", "/batches/x/cancel", "done", 200,
		},
	} {
		r.handler = r.door.Protect(http.HandlerFunc(c.page))
		r.ask("POST", "/batches/x/cancel?q=canary", append(c.how, from("203.0.113.9:77"))...)
		lines := r.logged(t)
		if len(lines) != 1 {
			t.Errorf("%s: %d lines: %v", name, len(lines), lines)
			continue
		}
		for key, want := range map[string]any{
			"level": c.level, "msg": "changed by the dashboard", "who": c.who, "remote": "203.0.113.9:77", "what": c.what, "on": c.on, "result": c.ended, "status": c.status,
		} {
			if lines[0][key] != want {
				t.Errorf("%s: %s is %v, want %v", name, key, lines[0][key], want)
			}
		}
		if name == "named" && lines[0]["for"] != "10m" {
			t.Errorf("the line lacks what was added: %v", lines[0])
		}
	}
	r.ask("GET", "/", session(cookie))
	if lines := r.logged(t); len(lines) != 0 {
		t.Errorf("reading is logged: %v", lines)
	}
}

// A handler that breaks off is logged too.
func TestAudit_OfAPanic(t *testing.T) {
	r := setup(t, nil)
	r.handler = r.door.Protect(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	func() {
		defer func() { _ = recover() }()
		r.ask("POST", "/x", bearing(secret))
	}()
	if lines := r.logged(t); len(lines) != 1 || lines[0]["result"] != "broken off" || lines[0]["level"] != "ERROR" {
		t.Errorf("logged: %v", lines)
	}
}

// What is turned away is logged where it would have changed something, and who
// guesses once for each guess that was looked at.
func TestAudit_OfRefusals(t *testing.T) {
	r := setup(t, nil)
	cookie, _ := r.login(t)
	r.logged(t)
	r.ask("POST", "/x", session(cookie))
	r.ask("POST", "/x", session(cookie), header("Sec-Fetch-Site", "cross-site"))
	r.ask("GET", "/x", session(cookie), header("Sec-Fetch-Site", "cross-site"))
	lines := r.logged(t)
	if len(lines) != 2 || lines[0]["reason"] != "no CSRF token" || lines[1]["reason"] != "another origin" || lines[1]["level"] != "WARN" {
		t.Errorf("refused changes are logged as %v", lines)
	}
	for range 3 * attemptBurst {
		r.ask("POST", "/login", form("token", "wrong-canary"))
		r.ask("GET", "/", bearing("wrong-canary"))
	}
	if lines := r.logged(t); len(lines) != attemptBurst {
		t.Errorf("%d lines of wrong tokens, want %d", len(lines), attemptBurst)
	}
}

// No token, session or CSRF token is in any line.
func TestAudit_HoldsNoSecret(t *testing.T) {
	r := setup(t, nil)
	cookie, csrf := r.login(t)
	r.ask("POST", "/x?"+Field+"="+csrf, session(cookie), header(Header, csrf))
	r.ask("POST", "/x", bearing(secret))
	r.ask("POST", "/x", bearing("wrong-"+secret))
	r.ask("POST", "/login", form("token", "wrong-"+secret))
	r.ask("POST", "/x", session(cookie), header(Header, "wrong-"+secret))
	r.ask("POST", "/logout", session(cookie), form(Field, csrf))
	text := r.log.String()
	if n := strings.Count(text, "\n"); n != 7 {
		t.Errorf("%d lines, want 7:\n%s", n, text)
	}
	for name, s := range map[string]string{"token": secret, "session": cookie.Value, "CSRF token": csrf} {
		if strings.Contains(text, s) {
			t.Errorf("the log holds the %s:\n%s", name, text)
		}
	}
}
