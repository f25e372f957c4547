# storlab: file_write
# Random bytes to the last block: a sparse file, or one of zeros, is read from memory and not from the disk.
param([string]$Path, [int64]$SizeBytes)
$block = New-Object -TypeName byte[] -ArgumentList 1048576
$random = New-Object -TypeName System.Random
$stream = [System.IO.File]::Open($Path, [System.IO.FileMode]::Create, [System.IO.FileAccess]::Write)
try {
    for ([int64]$written = 0; $written -lt $SizeBytes; $written += $block.Length) {
        $random.NextBytes($block)
        $stream.Write($block, 0, [int][Math]::Min($block.Length, $SizeBytes - $written))
    }
    $stream.Flush($true)
}
finally {
    $stream.Dispose()
}
