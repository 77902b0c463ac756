package spec

// SettingKeys are the keys of a profile in the table's order.
func SettingKeys() []string {
	var keys []string
	for _, s := range settings {
		keys = append(keys, s.key)
	}
	return keys
}
