package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// maxKeyBytes bounds a key file; keys are a few hundred bytes long.
const maxKeyBytes = 64 << 10

// APIKey reads the model's key from the environment variable or file that is
// named for it; "" where none is named. A file is read anew at every call, so a
// new key in it is used at once. env is os.LookupEnv outside of tests.
func (m Model) APIKey(env func(string) (string, bool)) (string, error) {
	switch {
	case m.APIKeyEnv != "":
		value, _ := env(m.APIKeyEnv)
		if value = strings.TrimSpace(value); value == "" {
			return "", fmt.Errorf("read key of model %s: its environment variable is not set", m.Key)
		}
		return value, nil
	case m.APIKeyFile != "":
		key, err := readKeyFile(m.APIKeyFile)
		if err != nil {
			return "", fmt.Errorf("read key of model %s: %w", m.Key, err)
		}
		return key, nil
	}
	return "", nil
}

// readKeyFile reads a regular file: a pipe or a device could block for ever.
// Its errors do not name the file, in whose place a key may have been pasted.
func readKeyFile(file string) (string, error) {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", errors.New("the key file does not exist")
	case err != nil:
		return "", errors.New("the key file cannot be read")
	case !info.Mode().IsRegular() || info.Size() > maxKeyBytes:
		return "", errors.New("the key file is not a small regular file")
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", errors.New("the key file cannot be read")
	}
	key := strings.TrimSpace(string(data))
	if key == "" {
		return "", errors.New("the key file is empty")
	}
	if strings.ContainsAny(key, "\r\n") {
		return "", errors.New("the key file has more than one line")
	}
	return key, nil
}

// Secret reads what signs messages from the environment variable that is named
// for it; "" where none is named. env is os.LookupEnv outside of tests.
func (n Notify) Secret(env func(string) (string, bool)) (string, error) {
	return named(env, n.SecretEnv, "read the secret of batches.notify")
}

// Secret reads what signs the receiver's messages; "" where nothing is named.
func (r Receiver) Secret(env func(string) (string, bool)) (string, error) {
	return named(env, r.SecretEnv, "read the secret of a receiver")
}

// Target reads the whole URL.
func (r Receiver) Target(env func(string) (string, bool)) (string, error) {
	if r.URLEnv == "" {
		return string(r.URL), nil
	}
	return named(env, r.URLEnv, "read the URL of a receiver")
}

// named reads an environment variable; "" where none is named.
func named(env func(string) (string, bool), name, what string) (string, error) {
	if name == "" {
		return "", nil
	}
	value, _ := env(name)
	if value = strings.TrimSpace(value); value == "" {
		return "", errors.New(what + ": its environment variable is not set")
	}
	return value, nil
}

// Token reads what people log in with from the environment variable that is
// named for it; "" where none is named. env is os.LookupEnv outside of tests.
func (d Dashboard) Token(env func(string) (string, bool)) (string, error) {
	if d.TokenEnv == "" {
		return "", nil
	}
	value, _ := env(d.TokenEnv)
	if value = strings.TrimSpace(value); value == "" {
		return "", fmt.Errorf("read the token of the dashboard: the environment variable %s, which dashboard.token_env names, is not set: "+
			"export it; openssl rand -base64 24 makes one", d.TokenEnv)
	}
	return value, nil
}
