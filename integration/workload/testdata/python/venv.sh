python3 -m venv env
mkdir -p pkg/sample
cat >pkg/setup.py <<'PY'
from setuptools import setup
setup(name="sample", version="1", packages=["sample"], entry_points={"console_scripts": ["sample=sample:main"]})
PY
printf 'def main():\n    print("from the package")\n' >pkg/sample/__init__.py
env/bin/pip install --disable-pip-version-check --no-index --no-build-isolation ./pkg
[ "$(env/bin/sample)" = 'from the package' ]
