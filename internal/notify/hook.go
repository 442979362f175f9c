package notify

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Format is the shape of a message, and how it is signed.
type Format string

// The formats.
const (
	JSON     Format = "json"     // Standard Webhooks
	Slack    Format = "slack"    // https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks
	Feishu   Format = "feishu"   // https://open.feishu.cn/document/client-docs/bot-v3/add-custom-bot
	DingTalk Format = "dingtalk" // https://open.dingtalk.com/document/robots/custom-robot-access
)

// Note is what a hook tells. A chat shows the title and the facts.
type Note struct {
	ID    string // the same for every repetition
	Title string // one line
	Facts []Fact
	Body  []byte // what the format json sends
}

// Fact is one line of a note.
type Fact struct{ Name, Value string }

// Hook is one receiver: a URL, and the shape of what is told there. It is safe
// for concurrent use.
type Hook struct {
	sender *Sender
	to     string
	format Format
	secret string // of the chats' bots
	now    func() time.Time
}

// NewHook returns a hook. The secret of the options is that of the format. An
// error shows neither the URL nor the secret; it is a *PrivateError where
// allowing private addresses would help.
func NewHook(to string, f Format, o Options) (*Hook, error) {
	if err := CheckURL(to, o.Private); err != nil {
		return nil, err
	}
	h := &Hook{to: to, format: f, now: time.Now}
	if f != JSON {
		h.secret, o.Secret = o.Secret, ""
	}
	var err error
	h.sender, err = New(o)
	return h, err
}

// Tell posts a note. It returns nil once the receiver took it, else an *Error.
func (h *Hook) Tell(ctx context.Context, n Note) error {
	switch h.format {
	case Slack:
		_, err := h.post(ctx, h.to, slackBody(n)) // what is wrong is in the status
		return err
	case Feishu:
		answer, err := h.post(ctx, h.to, h.feishuBody(n))
		return orRefused(err, answer, "code", "StatusCode")
	case DingTalk:
		answer, err := h.post(ctx, h.dingTalkURL(), dingTalkBody(n))
		return orRefused(err, answer, "errcode")
	}
	return h.sender.Send(ctx, h.to, n.ID, n.Body)
}

func (h *Hook) post(ctx context.Context, to string, body any) ([]byte, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, &Error{cause: "it cannot be written as JSON"}
	}
	return h.sender.post(ctx, to, nil, text)
}

// refusals are the codes of the chats that an operator meets, in words.
var refusals = map[int64]string{
	19021:   "the signature or the clock is wrong",                                                                              // Feishu
	11232:   "too many messages",                                                                                                // Feishu
	310000:  "a security setting of the robot refuses it: signature, clock, address, or keyword (Nightshift is in all of them)", // DingTalk
	tooFast: "too many messages",
}

// tooFast is DingTalk's code for more than 20 messages a minute. It says no more to
// such a robot for the next ten.
const (
	tooFast = 130101
	slowly  = 10 * time.Minute
)

// orRefused reads the code that a chat answers beside a 200: 0 is a message taken.
func orRefused(err error, answer []byte, names ...string) error {
	if err != nil {
		return err
	}
	fields := map[string]json.RawMessage{}
	if json.Unmarshal(answer, &fields) == nil {
		for _, name := range names {
			var code *int64
			if json.Unmarshal(fields[name], &code) == nil && code != nil {
				return codeError(*code)
			}
		}
	}
	return &Error{cause: "answered 200 without the code of a chat: is it the URL of a bot?"}
}

func codeError(code int64) error {
	if code == 0 {
		return nil
	}
	e := &Error{cause: fmt.Sprintf("refused with the code %d", code)}
	if words := refusals[code]; words != "" {
		e.cause += ": " + words
	}
	if code == tooFast {
		e.RetryAfter = slowly
	}
	return e
}

// macOf is a signature of the chats: HMAC-SHA256 in base64.
func macOf(key, text string) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(text))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// text is a note in lines, as chats without markup show it.
func (n Note) text() string {
	var b strings.Builder
	b.WriteString(n.Title)
	for _, f := range n.Facts {
		b.WriteString("\n" + f.Name + ": " + f.Value)
	}
	return b.String()
}

// slackEscape keeps names of people's from becoming links and mentions: the three
// characters that Slack's markup is made of.
var slackEscape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

type (
	slackText struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	slackBlock struct {
		Type string    `json:"type"`
		Text slackText `json:"text"`
	}
	slackMessage struct {
		Text   string       `json:"text"` // of notifications, and where blocks are not shown
		Blocks []slackBlock `json:"blocks"`
	}
)

func slackBody(n Note) slackMessage {
	section := func(text string) slackBlock { return slackBlock{"section", slackText{"mrkdwn", text}} }
	m := slackMessage{Text: slackEscape.Replace(n.Title), Blocks: []slackBlock{section("*" + slackEscape.Replace(n.Title) + "*")}}
	var lines []string
	for _, f := range n.Facts {
		lines = append(lines, slackEscape.Replace(f.Name+": "+f.Value))
	}
	if len(lines) > 0 {
		m.Blocks = append(m.Blocks, section(strings.Join(lines, "\n")))
	}
	return m
}

type feishuMessage struct {
	Timestamp string     `json:"timestamp,omitempty"` // seconds
	Sign      string     `json:"sign,omitempty"`
	Type      string     `json:"msg_type"`
	Content   feishuText `json:"content"`
}

type feishuText struct {
	Text string `json:"text"`
}

// feishuBody signs nothing with the text "timestamp\nsecret" as the key, which is
// how Feishu has it. Its texts have mentions in tags.
func (h *Hook) feishuBody(n Note) feishuMessage {
	m := feishuMessage{Type: "text", Content: feishuText{strings.ReplaceAll(n.text(), "<", "‹")}}
	if h.secret != "" {
		m.Timestamp = strconv.FormatInt(h.now().Unix(), 10)
		m.Sign = macOf(m.Timestamp+"\n"+h.secret, "")
	}
	return m
}

type dingTalkMessage struct {
	Type string       `json:"msgtype"`
	Text dingTalkText `json:"text"`
}

type dingTalkText struct {
	Content string `json:"content"`
}

func dingTalkBody(n Note) dingTalkMessage { return dingTalkMessage{"text", dingTalkText{n.text()}} }

// dingTalkURL signs the text "timestamp\nsecret" with the secret as the key, and
// says so in the URL.
func (h *Hook) dingTalkURL() string {
	u, err := url.Parse(h.to)
	if err != nil || h.secret == "" {
		return h.to
	}
	stamp := strconv.FormatInt(h.now().UnixMilli(), 10)
	q := u.Query()
	q.Set("timestamp", stamp)
	q.Set("sign", macOf(h.secret, stamp+"\n"+h.secret))
	u.RawQuery = q.Encode()
	return u.String()
}
