package notify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

const botSecret = "SEC000bot"

var note = Note{
	ID: "msg_1", Title: "Nightshift: breaker of a/<b> & c is open", Facts: []Fact{{"Since", "22:00"}, {"Reason", "<at user_id=\"all\">x"}},
	Body: []byte(`{"type":"breaker_open_long"}`),
}

func hook(t *testing.T, to string, f Format, secret string) *Hook {
	t.Helper()
	h, err := NewHook(to, f, Options{Secret: secret, Private: true, Version: "1"})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func answer(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
}

func mac(key, text string) string {
	h := hmac.New(sha256.New, []byte(key))
	_, _ = io.WriteString(h, text)
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}

func recent(t *testing.T, at time.Time) {
	t.Helper()
	if age := time.Since(at); age < -time.Minute || age > time.Minute {
		t.Errorf("the signature is %s old", age)
	}
}

func TestTell_JSON(t *testing.T) {
	t.Parallel()
	s, got := receiver(t, status(http.StatusNoContent))
	if err := hook(t, s.URL, JSON, secret).Tell(t.Context(), note); err != nil {
		t.Fatal(err)
	}
	p := <-got
	verifier, _ := standardwebhooks.NewWebhook(secret)
	if err := verifier.Verify(p.body, p.Header); err != nil || string(p.body) != string(note.Body) || p.Header.Get("webhook-id") != note.ID {
		t.Errorf("%v: %s, %s", err, p.Header.Get("webhook-id"), p.body)
	}
}

func TestTell_Slack(t *testing.T) {
	t.Parallel()
	s, got := receiver(t, answer("ok"))
	if err := hook(t, s.URL+"/services/T/B/x", Slack, "").Tell(t.Context(), note); err != nil {
		t.Fatal(err)
	}
	p := <-got
	const want = `{"text":"Nightshift: breaker of a/&lt;b&gt; &amp; c is open","blocks":[` +
		`{"type":"section","text":{"type":"mrkdwn","text":"*Nightshift: breaker of a/&lt;b&gt; &amp; c is open*"}},` +
		`{"type":"section","text":{"type":"mrkdwn","text":"Since: 22:00\nReason: &lt;at user_id=\"all\"&gt;x"}}]}`
	if body := unescaped(t, p.body); body != want || p.URL.Path != "/services/T/B/x" || p.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%s\n%s\nwant\n%s", p.URL, body, want)
	}
}

// unescaped is JSON as people write it: Go escapes <, > and & too.
func unescaped(t *testing.T, body []byte) string {
	t.Helper()
	if !json.Valid(body) {
		t.Fatalf("%q is no JSON", body)
	}
	return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(body))
}

func TestTell_Feishu(t *testing.T) {
	t.Parallel()
	s, got := receiver(t, answer(`{"code":0,"msg":"success","data":{}}`))
	if err := hook(t, s.URL, Feishu, botSecret).Tell(t.Context(), note); err != nil {
		t.Fatal(err)
	}
	p := <-got
	var m struct {
		Timestamp string `json:"timestamp"`
		Sign      string `json:"sign"`
		MsgType   string `json:"msg_type"`
		Content   struct{ Text string }
	}
	if err := json.Unmarshal(p.body, &m); err != nil {
		t.Fatal(err)
	}
	seconds, err := strconv.ParseInt(m.Timestamp, 10, 64)
	recent(t, time.Unix(seconds, 0))
	if err != nil || m.Sign != mac(m.Timestamp+"\n"+botSecret, "") {
		t.Errorf("signed %q at %q", m.Sign, m.Timestamp)
	}
	if m.MsgType != "text" || m.Content.Text != "Nightshift: breaker of a/‹b> & c is open\nSince: 22:00\nReason: ‹at user_id=\"all\">x" {
		t.Errorf("%+v", m)
	}
	if err := hook(t, s.URL, Feishu, "").Tell(t.Context(), note); err != nil {
		t.Fatal(err)
	}
	if p := <-got; strings.Contains(string(p.body), "sign") || strings.Contains(string(p.body), "timestamp") {
		t.Errorf("without a secret: %s", p.body)
	}
}

func TestTell_DingTalk(t *testing.T) {
	t.Parallel()
	s, got := receiver(t, answer(`{"errcode":0,"errmsg":"ok"}`))
	if err := hook(t, s.URL+"/robot/send?access_token=t", DingTalk, botSecret).Tell(t.Context(), note); err != nil {
		t.Fatal(err)
	}
	p := <-got
	q := p.URL.Query()
	ms, err := strconv.ParseInt(q.Get("timestamp"), 10, 64)
	recent(t, time.UnixMilli(ms))
	if err != nil || q.Get("access_token") != "t" || q.Get("sign") != mac(botSecret, q.Get("timestamp")+"\n"+botSecret) {
		t.Errorf("%s", p.URL)
	}
	const want = `{"msgtype":"text","text":{"content":"Nightshift: breaker of a/<b> & c is open\nSince: 22:00\nReason: <at user_id=\"all\">x"}}`
	if body := unescaped(t, p.body); body != want {
		t.Error(body)
	}
	if err := hook(t, s.URL+"/robot/send?access_token=t", DingTalk, "").Tell(t.Context(), note); err != nil {
		t.Fatal(err)
	}
	if p := <-got; p.URL.RawQuery != "access_token=t" {
		t.Errorf("without a secret: %s", p.URL)
	}
}

// The chats say in a 200 that they did not take a message.
func TestTell_Refusals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		format Format
		answer string
		want   string // "": taken
		after  time.Duration
	}{
		{Feishu, `{"code":0}`, "", 0},
		{Feishu, `{"StatusCode":0,"StatusMessage":"success"}`, "", 0},
		{Feishu, `{"code":19021,"msg":"sign match fail hunter2"}`, "refused with the code 19021: the signature or the clock is wrong", 0},
		{Feishu, `{"code":11232,"data":{},"msg":"frequency limited"}`, "refused with the code 11232: too many messages", 0},
		{Feishu, `{"code":7}`, "refused with the code 7", 0},
		{Feishu, `{"code":null}`, "answered 200 without the code of a chat: is it the URL of a bot?", 0},
		{Feishu, `<html>hunter2</html>`, "answered 200 without the code of a chat: is it the URL of a bot?", 0},
		{DingTalk, `{"errcode":0,"errmsg":"ok"}`, "", 0},
		{DingTalk, `{"errcode":130101,"errmsg":"send too fast"}`, "refused with the code 130101: too many messages", 10 * time.Minute},
		{DingTalk, `{"errcode":"0"}`, "answered 200 without the code of a chat: is it the URL of a bot?", 0},
		{DingTalk, ``, "answered 200 without the code of a chat: is it the URL of a bot?", 0},
		{Slack, `no_service`, "", 0}, // with a 404 in real life
	} {
		s, _ := receiver(t, answer(c.answer))
		err := hook(t, s.URL, c.format, "").Tell(t.Context(), note)
		if c.want == "" {
			if err != nil {
				t.Errorf("%s %s: %v", c.format, c.answer, err)
			}
			continue
		}
		if e := refusal(t, err); e.Error() != c.want || e.RetryAfter != c.after {
			t.Errorf("%s %s: %v after %s", c.format, c.answer, e, e.RetryAfter)
		}
	}
	for _, f := range []Format{Slack, Feishu, DingTalk, JSON} {
		s, _ := receiver(t, status(http.StatusNotFound))
		if e := refusal(t, hook(t, s.URL, f, "").Tell(t.Context(), note)); e.Error() != "answered 404 Not Found" {
			t.Errorf("%s: %v", f, e)
		}
	}
}

func TestNewHook_Refuses(t *testing.T) {
	t.Parallel()
	for to, f := range map[string]Format{"http://127.0.0.1/hunter2": Slack, "hunter2": Feishu, "http://169.254.169.254/hunter2": JSON} {
		if _, err := NewHook(to, f, Options{}); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", to, err)
		}
	}
	if _, err := NewHook("https://example.com", JSON, Options{Secret: "hunter2"}); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a short secret: %v", err)
	}
	if _, err := NewHook("https://example.com", DingTalk, Options{Secret: "short"}); err != nil {
		t.Errorf("a bot's own secret: %v", err)
	}
}
