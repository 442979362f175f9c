package provider

import (
	"encoding/json"
	"fmt"
	"mime"
	"strings"
)

// turn is a message of the Messages API.
type turn struct {
	Role    string  `json:"role"` // user or assistant
	Content []block `json:"content"`
}

// block is a content block: text, an image, a document, a tool's use or its result.
type block struct {
	Type         string          `json:"type"`
	Text         string          `json:"text,omitempty"`
	Source       *source         `json:"source,omitempty"`
	Title        string          `json:"title,omitempty"`
	ID           string          `json:"id,omitempty"`
	Name         string          `json:"name,omitempty"`
	Input        json.RawMessage `json:"input,omitempty"`
	ToolUseID    string          `json:"tool_use_id,omitempty"`
	Content      []block         `json:"content,omitempty"`
	CacheControl json.RawMessage `json:"cache_control,omitempty"`
}

type source struct {
	Type      string `json:"type"` // base64 or url
	MediaType string `json:"media_type,omitempty"`
	Data      string `json:"data,omitempty"`
	URL       string `json:"url,omitempty"`
}

// chatMessage is a message of a chat completion; content and what else it has
// are blocks already.
type chatMessage struct {
	role       string
	content    []block
	refusal    string
	calls      []block
	toolCallID string
}

func (t *translation) readMessages(raw json.RawMessage) error {
	t.out.System, t.out.Messages = nil, nil // a repeated key: the last one counts
	err := elements(raw, "messages", func(raw json.RawMessage, i int) error {
		at := fmt.Sprintf("messages[%d]", i)
		m, err := readChatMessage(raw, at)
		if err != nil {
			return err
		}
		return t.add(m, at)
	})
	if err != nil {
		return err
	}
	t.trimPrefill()
	return nil
}

func readChatMessage(raw json.RawMessage, at string) (chatMessage, error) {
	var m chatMessage
	err := readFields(raw, at+".", handlers{
		"role": into(at+".role", &m.role),
		"content": func(raw json.RawMessage) (err error) {
			m.content, err = readContent(raw, at+".content")
			return err
		},
		"refusal": into(at+".refusal", &m.refusal),
		"tool_calls": func(raw json.RawMessage) (err error) {
			m.calls, err = readToolCalls(raw, at+".tool_calls")
			return err
		},
		"tool_call_id": into(at+".tool_call_id", &m.toolCallID),
		// What an earlier answer came with, and was not said.
		"annotations": leaveOut, "reasoning_content": leaveOut,
	})
	return m, err
}

// add puts a message where the Messages API has it.
func (t *translation) add(m chatMessage, at string) error {
	switch m.role {
	case "system", "developer":
		for _, b := range m.content {
			if b.Type != "text" {
				return &fieldError{at + ".content", "may be nothing but text in a system message"}
			}
		}
		t.out.System = append(t.out.System, m.content...)
	case "user":
		t.say("user", m.content)
	case "assistant":
		content := appendText(m.content, block{Type: "text", Text: m.refusal})
		t.say("assistant", append(content, m.calls...))
	case "tool":
		if m.toolCallID == "" {
			return &fieldError{at + ".tool_call_id", "is missing"}
		}
		t.say("user", []block{{Type: "tool_result", ToolUseID: toolID(m.toolCallID), Content: m.content}})
	default:
		return &fieldError{at + ".role", "is none of system, developer, user, assistant and tool"}
	}
	return nil
}

// say adds to a turn, or begins one; turns of one role in a row are one.
func (t *translation) say(role string, content []block) {
	if len(content) == 0 {
		return // the API refuses empty messages, and nothing is lost
	}
	if n := len(t.out.Messages); n > 0 && t.out.Messages[n-1].Role == role {
		t.out.Messages[n-1].Content = append(t.out.Messages[n-1].Content, content...)
		return
	}
	t.out.Messages = append(t.out.Messages, turn{role, content})
}

// trimPrefill cuts white space off the end of an answer that the model is to go
// on with: the API refuses it.
func (t *translation) trimPrefill() {
	n := len(t.out.Messages)
	if n == 0 || t.out.Messages[n-1].Role != "assistant" {
		return
	}
	last := &t.out.Messages[n-1].Content[len(t.out.Messages[n-1].Content)-1]
	last.Text = strings.TrimRight(last.Text, " \t\r\n")
}

// readContent reads a string or a list of parts.
func readContent(raw json.RawMessage, at string) ([]block, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return appendText(nil, block{Type: "text", Text: text}), nil
	}
	var all []block
	err := elements(raw, at, func(raw json.RawMessage, i int) error {
		b, err := readPart(raw, fmt.Sprintf("%s[%d]", at, i))
		if err != nil {
			return err
		}
		if b.Type == "text" {
			all = appendText(all, b)
		} else {
			all = append(all, b)
		}
		return nil
	})
	return all, err
}

// appendText adds a text; the API takes none that is white space alone, so such
// a one goes to the end of the text before it, if there is one.
func appendText(all []block, b block) []block {
	if strings.TrimSpace(b.Text) != "" {
		return append(all, b)
	}
	if n := len(all); n > 0 && all[n-1].Type == "text" {
		all[n-1].Text += b.Text
	}
	return all
}

func readPart(raw json.RawMessage, at string) (block, error) {
	var kind, text, refusal string
	var image, file, cache json.RawMessage
	err := readFields(raw, at+".", handlers{
		"type": into(at+".type", &kind), "text": into(at+".text", &text), "refusal": into(at+".refusal", &refusal),
		"image_url": keep(&image), "file": keep(&file), "cache_control": keep(&cache),
	})
	if err != nil {
		return block{}, err
	}
	b := block{Type: "text"}
	switch {
	case kind == "text":
		b.Text = text
	case kind == "refusal":
		b.Text = refusal
	case kind == "image_url" && image != nil:
		b, err = readImage(image, at+".image_url")
	case kind == "file" && file != nil:
		b, err = readFile(file, at+".file")
	default:
		err = &fieldError{at + ".type", noCounterpart}
	}
	b.CacheControl = cache
	return b, err
}

// imageTypes are what the API takes.
var imageTypes = map[string]string{
	"image/jpeg": "image/jpeg", "image/jpg": "image/jpeg", "image/png": "image/png", "image/gif": "image/gif", "image/webp": "image/webp",
}

// readImage takes a data URL or the address of an image; detail is left out,
// since the API scales images by itself.
func readImage(raw json.RawMessage, at string) (block, error) {
	var address string
	if err := readFields(raw, at+".", handlers{"url": into(at+".url", &address), "detail": leaveOut}); err != nil {
		return block{}, err
	}
	if strings.HasPrefix(address, "http://") || strings.HasPrefix(address, "https://") {
		return block{Type: "image", Source: &source{Type: "url", URL: address}}, nil
	}
	mediaType, data, ok := cutDataURL(address)
	if !ok || imageTypes[mediaType] == "" {
		return block{}, &fieldError{at + ".url", "is neither an address nor a JPEG, PNG, GIF or WebP in a base64 data URL"}
	}
	return block{Type: "image", Source: &source{Type: "base64", MediaType: imageTypes[mediaType], Data: data}}, nil
}

// readFile takes a PDF that the request holds.
func readFile(raw json.RawMessage, at string) (block, error) {
	var address, name string
	err := readFields(raw, at+".", handlers{"file_data": into(at+".file_data", &address), "filename": into(at+".filename", &name)})
	if err != nil {
		return block{}, err
	}
	mediaType, data, ok := cutDataURL(address)
	if !ok || mediaType != "application/pdf" {
		return block{}, &fieldError{at + ".file_data", "is no PDF in a base64 data URL"}
	}
	return block{Type: "document", Title: name, Source: &source{Type: "base64", MediaType: mediaType, Data: data}}, nil
}

// cutDataURL returns the media type and the base64 of a data URL.
func cutDataURL(address string) (mediaType, data string, ok bool) {
	head, data, comma := strings.Cut(address, ",")
	kind, isData := cutPrefixFold(head, "data:")
	kind, base64 := cutSuffixFold(kind, ";base64")
	if !comma || !isData || !base64 || data == "" {
		return "", "", false
	}
	mediaType, _, err := mime.ParseMediaType(kind)
	return mediaType, data, err == nil
}

func cutPrefixFold(s, prefix string) (string, bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return s, false
	}
	return s[len(prefix):], true
}

func cutSuffixFold(s, suffix string) (string, bool) {
	if len(s) < len(suffix) || !strings.EqualFold(s[len(s)-len(suffix):], suffix) {
		return s, false
	}
	return s[:len(s)-len(suffix)], true
}
