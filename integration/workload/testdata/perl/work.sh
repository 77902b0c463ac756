perl -MFile::Temp -MPOSIX -MTime::HiRes -MDigest::SHA=sha256_hex -e '
	my @kids = map { my $n = $_; my $p = fork // die; $p or POSIX::_exit($n); $p } 1 .. 3;
	my $sum = 0;
	waitpid($_, 0), $sum += $? >> 8 for @kids;
	$sum == 6 or die $sum;
	my ($fh, $name) = File::Temp::tempfile(UNLINK => 1);
	print $fh "text"; close $fh;
	`cat $name` eq "text" or die;
	length sha256_hex("x") == 64 or die;
	local $SIG{ALRM} = sub { exit 0 };
	Time::HiRes::ualarm(50_000);
	sleep 10; exit 1'
