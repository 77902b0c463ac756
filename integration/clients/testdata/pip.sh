# Debian has pip as this file, from which it makes virtual environments.
pip=$(echo /usr/share/python-wheels/pip-*.whl)/pip
python3 "$pip" install -q --target lib --index-url https://$1/simple hello
PYTHONPATH=lib python3 -c 'import hello; assert hello.said == "hello"'
