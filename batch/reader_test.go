package batch

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// readAll returns the lines of a source and what is wrong with the others.
func readAll(tb testing.TB, r *Reader) (lines []Line, bad []string) {
	tb.Helper()
	for {
		l, raw, err := r.Next()
		if errors.Is(err, io.EOF) {
			return lines, bad
		}
		var le *LineError
		if errors.As(err, &le) {
			bad = append(bad, le.Error())
			continue
		}
		if err != nil {
			tb.Fatal(err)
		}
		if l.Digest != LineDigest(raw) {
			tb.Fatalf("line %d: digest %s is not of its raw bytes", l.Number, l.Digest)
		}
		lines = append(lines, l)
	}
}

func gz(tb testing.TB, text string) []byte {
	tb.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, text); err != nil {
		tb.Fatal(err)
	}
	if err := z.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func TestReader_OpenAILine(t *testing.T) {
	body := `{ "messages" : [{"role":"user","content":"a < b & \u00e9 \"}"}],  "temperature":0.70, "metadata":{"title":"T"},"model":"x" }`
	text := `{"custom_id":"a-1","method":"POST","url":"/v1/chat/completions","body":` + body + `}`
	lines, bad := readAll(t, reader(t, text))
	if len(bad) > 0 || len(lines) != 1 {
		t.Fatalf("%d lines, bad %v", len(lines), bad)
	}
	want := Line{
		Number: 1, CustomID: "a-1", Endpoint: "/v1/chat/completions", Body: []byte(body),
		Metadata: []byte(`{"title":"T"}`), Digest: LineDigest([]byte(text)), Model: "x",
	}
	if diff := cmp.Diff(want, lines[0]); diff != "" {
		t.Error(diff)
	}
}

func TestReader_ShortLine(t *testing.T) {
	for text, body := range map[string]string{
		`{"id":"a","prompt":"Why <b>?"}`: `{"messages":[{"role":"user","content":"Why <b>?"}]}`,
		`{"id":"a","prompt":"Why?","system":"Be brief.","max_tokens":50,"metadata":{"k":1}}`: `{"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Why?"}],"max_tokens":50}`,
	} {
		text = strings.Replace(text, `"id"`, `"schema": {"type": "object"} ,"id"`, 1)
		lines, bad := readAll(t, reader(t, text))
		if len(bad) > 0 || len(lines) != 1 || string(lines[0].Body) != body || string(lines[0].Schema) != `{"type": "object"}` {
			t.Errorf("%s: %+v, bad %v", text, lines, bad)
		}
	}
}

func TestCase32_FormsOfAFile(t *testing.T) {
	a, b, c := openAI("a"), openAI("b"), openAI("c")
	plain := a + "\n\n" + b + "\n   \n" + c + "\n"
	var want []Line
	for i, text := range []string{a, b, c} {
		l, err := parseLine([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		l.Number, l.Digest = int64(2*i+1), LineDigest([]byte(text))
		want = append(want, l)
	}
	for name, text := range map[string]string{
		"plain":           plain,
		"byte order mark": "\ufeff" + plain,
		"CRLF":            strings.ReplaceAll(plain, "\n", "\r\n"),
		"no last newline": strings.TrimSuffix(plain, "\n"),
		"gzip":            string(gz(t, "\ufeff"+plain)),
		"two gzip files":  string(append(gz(t, plain[:30]), gz(t, plain[30:])...)),
	} {
		lines, bad := readAll(t, reader(t, text))
		if diff := cmp.Diff(want, lines); diff != "" || len(bad) > 0 {
			t.Errorf("%s: bad %v\n%s", name, bad, diff)
		}
		sum, err := Validate(reader(t, text))
		first, _ := Validate(reader(t, plain))
		if err != nil || sum != first || sum.Lines != 3 {
			t.Errorf("%s: summary %+v, %v; plain: %+v", name, sum, err, first)
		}
	}
}

func TestCase32_LongLines(t *testing.T) {
	long := func(n int) string { // a line of exactly n bytes
		frame := len(`{"id":"x","prompt":""}`)
		return fmt.Sprintf(`{"id":"x","prompt":"%s"}`, strings.Repeat("q", n-frame))
	}
	text := openAI("a") + "\n" + long(5<<20) + "\n" + openAI("b") + "\n" + long(maxLine+1) + "\r\n" + openAI("c") + "\n"
	lines, bad := readAll(t, reader(t, text))
	if len(lines) != 4 || lines[1].Number != 2 || len(lines[1].Body) < 5<<20 || lines[3].Number != 5 {
		t.Fatalf("%d lines", len(lines))
	}
	if len(bad) != 1 || bad[0] != "in.jsonl:4: it is longer than 16 MiB" {
		t.Fatalf("bad %v", bad)
	}
	if lines, bad := readAll(t, reader(t, long(maxLine)+"\r\n")); len(lines) != 1 || len(bad) > 0 {
		t.Fatalf("a line of 16 MiB: %d lines, bad %v", len(lines), bad)
	}
}

func TestCase33_BadLinesAreNamed(t *testing.T) {
	ok := `{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"messages":[{}]}}`
	for text, want := range map[string]string{
		`not json`:   "it is not JSON: invalid character 'o' in literal null (expecting 'u') at byte 2",
		`{"id":"a",`: "it is not JSON: unexpected end of JSON input at byte 10",
		`[1]`:        "it is an array, not an object",
		`"x"`:        "it is a string, not an object",
		`{"id":"a","prompt":"x","metadata":{"m":` + nested(999) + `}}`: "it is nested deeper than 1000 levels",
		nested(20_000):                                 "it is nested deeper than 1000 levels",
		`{}`:                                           `it is not a request: it has neither "custom_id" and "body" nor "id" and "prompt"`,
		"{\"id\":\"\xff\",\"prompt\":\"x\"}":           "it is not UTF-8",
		strings.Replace(ok, `"a"`, `""`, 1):            "custom_id: it is empty",
		strings.Replace(ok, `"a"`, `7`, 1):             "custom_id: it is a number, not a string",
		strings.Replace(ok, `"custom_id":"a",`, ``, 1): "custom_id: it is missing",
		strings.Replace(ok, `"a"`, `"`+strings.Repeat("é", 257)+`"`, 1):              "custom_id: it has 514 bytes; 512 are allowed",
		strings.Replace(ok, `POST`, `GET`, 1):                                        `method: it is "GET", not "POST"`,
		strings.Replace(ok, `"method":"POST",`, ``, 1):                               `method: it is "", not "POST"`,
		strings.Replace(ok, `/v1/chat/completions`, `/v1/moderations`, 1):            `url: "/v1/moderations" is not supported; these are: /v1/chat/completions, /v1/completions, /v1/embeddings, /v1/responses`,
		strings.Replace(ok, `,"body":{"messages":[{}]}`, ``, 1):                      "body: it is missing",
		strings.Replace(ok, `{"messages":[{}]}`, `[]`, 1):                            "body: it is an array, not an object",
		strings.Replace(ok, `"messages":[{}]`, `"n":1`, 1):                           "body.messages: it is missing",
		strings.Replace(ok, `[{}]`, `[ ]`, 1):                                        "body.messages: it must be an array with at least one message",
		strings.Replace(ok, `[{}]`, `"hi"`, 1):                                       "body.messages: it must be an array with at least one message",
		strings.Replace(ok, `[{}]`, `[{}],"stream":true`, 1):                         "body.stream: answers of a batch are not streamed; leave it out",
		strings.Replace(ok, `[{}]`, `[{}],"model":"a","model":"b"`, 1):               "body.model: it stands there twice",
		strings.Replace(ok, `"custom_id":"a"`, `"custom_id":"a","custom_id":"b"`, 1): "custom_id: it stands there twice",
		`{"id":"a","prompt":"x","schema":[]}`:                                        "schema: it is an array, not an object",
		`{"id":"a","prompt":"x","schema":{"type":"text"}}`:                           "schema: the schema does not compile: at /type: none of the alternatives fits (at /type: value must be one of 'array', 'boolean', 'integer', 'null', 'number', 'object', 'string'; at /type: got string, want array)",
		`{"id":"a","prompt":"x","schema":{"$ref":"http://127.0.0.1:1/s.json"}}`:      `schema: the schema does not compile: it refers to "http://127.0.0.1:1/s.json"; a schema may refer to its own parts only`,
		strings.Replace(ok, `"custom_id":"a"`, `"custom_id":"a","prio":1`, 1):        "prio: it is not a field of a request (custom_id, method, url, body, probe_safe)",
		`{"id":"a"}`:                                "prompt: it is missing or empty",
		`{"prompt":"a"}`:                            "id: it is missing",
		`{"id":"a","prompt":""}`:                    "prompt: it is missing or empty",
		`{"id":"a","prompt":"x","goal":"cheap"}`:    `goal: "cheap" is not a goal (order, balanced, speed, cost, reliability, own)`,
		`{"id":"a","prompt":"x","goal":""}`:         `goal: "" is not a goal (order, balanced, speed, cost, reliability, own)`,
		`{"id":"a","prompt":"x","probe_safe":"no"}`: "probe_safe: it is a string, not true or false",
		`{"id":"a","prompt":"x","probe_safe":null}`: "probe_safe: it is null, not true or false",
		`{"id":"a","prompt":"x","max_tokens":0}`:    "max_tokens: it must be a whole number above 0",
		`{"id":"a","prompt":"x","max_tokens":"5"}`:  "max_tokens: it must be a whole number above 0",
		`{"id":"a","prompt":"x","metadata":[]}`:     "metadata: it is an array, not an object",
		`{"id":"a","prompt":"x","temperature":1}`:   "temperature: it is not a field of a short line (id, prompt, system, max_tokens, schema, goal, metadata, probe_safe)",
	} {
		lines, bad := readAll(t, reader(t, ok+"\n"+text+"\n"+openAI("z")))
		if len(lines) != 2 || len(bad) != 1 || bad[0] != "in.jsonl:2: "+want {
			t.Errorf("%s:\n%d lines, bad %v\nwant %s", text, len(lines), bad, want)
		}
	}
	if lines, bad := readAll(t, reader(t, strings.Replace(ok, `[{}]`, `[{}],"stream":false`, 1))); len(lines) != 1 {
		t.Errorf("stream false is refused: %v", bad)
	}
}

// nested is an array in an array and so on, that many of them.
func nested(levels int) string {
	return strings.Repeat("[", levels) + strings.Repeat("]", levels)
}

func TestReader_NestingThatIsAllowed(t *testing.T) {
	text := `{"id":"a","prompt":"` + strings.Repeat(`[{\"`, 2000) + `","metadata":{"m":` + nested(998) + `}}`
	if lines, bad := readAll(t, reader(t, text)); len(lines) != 1 {
		t.Errorf("bad %v", bad)
	}
}

func TestCase33_Validate(t *testing.T) {
	_, err := Validate(reader(t, openAI("a")+"\n\n"+openAI("b")+"\n"+openAI("a")))
	if want := `in.jsonl:4: custom_id: "a" stands on line 1 already`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	_, err = Validate(reader(t, strings.Repeat("x\n", 25)))
	var bad *LineErrors
	if !errors.As(err, &bad) || len(bad.Errs) != 20 || bad.More != 5 || !strings.HasSuffix(err.Error(), "\nand 5 more") {
		t.Errorf("25 bad lines: %v", err)
	}
	for _, text := range []string{"", "\n\r\n", "\ufeff"} {
		if _, err := Validate(reader(t, text)); err == nil || err.Error() != "in.jsonl: there is no request in it" {
			t.Errorf("%q: %v", text, err)
		}
	}
	a, _ := Validate(reader(t, openAI("a")+"\n"+openAI("b")))
	b, _ := Validate(reader(t, openAI("b")+"\n"+openAI("a")))
	if a.Digest == b.Digest {
		t.Error("the order of lines makes no difference to the digest")
	}
}

func TestReader_TornGzip(t *testing.T) {
	whole := gz(t, jsonl(2000))
	for name, data := range map[string][]byte{
		"cut":      whole[:len(whole)/2],
		"no end":   whole[:len(whole)-3],
		"checksum": append(bytes.Clone(whole[:len(whole)-8]), 1, 2, 3, 4, 5, 6, 7, 8),
	} {
		_, err := Validate(reader(t, string(data)))
		var bad *LineErrors
		if !errors.As(err, &bad) || len(bad.Errs) != 1 || bad.Errs[0].Line == 0 || !strings.Contains(err.Error(), "the gzip file is") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What the damage left of lines is nothing that a person can mend in the file.
func TestReader_DamagedGzip(t *testing.T) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.NoCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(z, jsonl(30)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	damaged := bytes.ReplaceAll(b.Bytes(), []byte("custom_id"), []byte("cus\xfeom_id"))
	want := "in.jsonl:31: the gzip file is damaged before this line"
	if _, err := Validate(reader(t, string(damaged))); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestReader_GzipAndSomethingElse(t *testing.T) {
	whole := gz(t, jsonl(3))
	for _, junk := range []string{"x", "\x1f", "\x00\x00", "some bytes that are no gzip", openAI("d") + "\n"} {
		lines, bad := readAll(t, reader(t, string(whole)+junk))
		want := "in.jsonl: bytes that are no gzip follow the gzip data"
		if len(lines) != 3 || len(bad) != 1 || bad[0] != want {
			t.Errorf("%q: %d lines, bad %v", junk, len(lines), bad)
		}
	}
	for name, more := range map[string]string{"torn header": string(whole[:5]), "torn": string(whole[:30])} {
		if _, bad := readAll(t, reader(t, string(whole)+more)); len(bad) != 1 || bad[0] != "in.jsonl:4: the gzip file is torn here" {
			t.Errorf("%s: bad %v", name, bad)
		}
	}
}

func TestOpenReaderKnowsGzipByItsBytes(t *testing.T) {
	for name, data := range map[string][]byte{"a.jsonl": []byte(jsonl(3)), "b.jsonl.gz": gz(t, jsonl(3)), "c.jsonl": gz(t, jsonl(3))} {
		r, err := OpenReader(bytes.NewReader(data), name)
		if err != nil {
			t.Fatal(err)
		}
		if sum, err := Validate(r); err != nil || sum.Lines != 3 {
			t.Errorf("%s: %+v, %v", name, sum, err)
		}
	}
	for name, data := range map[string][]byte{"d.jsonl.gz": []byte(jsonl(3)), "e.gz": {0x1f, 0x8b, 8}} {
		if _, err := OpenReader(bytes.NewReader(data), name); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
