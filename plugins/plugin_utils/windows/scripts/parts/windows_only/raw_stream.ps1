# part: windows_only/raw_stream
# A disk or a file, opened for reading alone while others go on using it. .NET opens no disk by its name, so Windows itself is asked.
function Open-RawStream {
    param([string]$Path)
    $signature = '[DllImport("kernel32.dll", CharSet = CharSet.Unicode, SetLastError = true)] public static extern Microsoft.Win32.SafeHandles.SafeFileHandle CreateFileW(string name, uint access, uint share, IntPtr security, uint disposition, uint flags, IntPtr template);'
    $kernel = Add-Type -MemberDefinition $signature -Name 'RawStream' -Namespace 'Storlab' -PassThru
    # GENERIC_READ; FILE_SHARE_READ, FILE_SHARE_WRITE and FILE_SHARE_DELETE; OPEN_EXISTING.
    $handle = $kernel::CreateFileW($Path, 2147483648, 7, [IntPtr]::Zero, 3, 0, [IntPtr]::Zero)
    if ($handle.IsInvalid) { throw "$Path cannot be opened for reading." }
    # Without a buffer, which would read parts of sectors.
    New-Object -TypeName System.IO.FileStream -ArgumentList $handle, ([System.IO.FileAccess]::Read), 1
}
